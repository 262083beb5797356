"""An encoder whose tokens become one vector for a text, as embedding models have it.

It is saved as sentence-transformers keeps such models: modules.json, a pooling, perhaps a dense
layer, perhaps vectors of length one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyrig.errors import InvalidInputError
from anyrig.training.tasks import texts
from anyrig.training.tasks.texts import Cutter, write_json

Pooling = Literal["mean", "cls", "max", "last", "mean_sqrt"]
_FLAGS: dict[Pooling, str] = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt": "pooling_mode_mean_sqrt_len_tokens",
    "last": "pooling_mode_lasttoken",
}
_MODULES = "sentence_transformers.models"


class Dense(nn.Module):
    """A layer behind the pooling, as some models have one."""

    def __init__(self, size: int, out: int, *, bias: bool = True, tanh: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(size, out, bias=bias)
        self.tanh = tanh

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors behind it."""
        made: Tensor = self.linear(vectors)
        return made.tanh() if self.tanh else made

    @classmethod
    def of(cls, folder: Path) -> Dense:
        """The layer of a folder."""
        from safetensors.torch import load_file

        try:
            told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            state = load_file(str(folder / "model.safetensors"))
            weight = state["linear.weight"]
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInputError(
                f"{folder} contains no dense layer: {error}", hint="Get the model again."
            ) from error
        kind = str(told.get("activation_function", "")).rpartition(".")[2]
        if kind not in ("Tanh", "Identity", ""):
            raise InvalidInputError(
                f"a dense layer with {kind}", hint="Tanh and Identity are supported."
            )
        out, size = weight.shape
        made = cls(size, out, bias="linear.bias" in state, tanh=kind == "Tanh")
        made.load_state_dict({name: value.float() for name, value in state.items()})
        return made


class SentenceModel(nn.Module):
    """Token numbers and their mask to a vector for each row, not in half precision.

    Args:
        encoder: of transformers; a pooler that it has is left out, since nothing reads it.
        pooling: how a row's tokens become one vector.
        normalise: whether vectors have length one.
        dense: a layer behind the pooling.
        piece: rows that are computed at once while learning. More are computed piece by piece, and
            each piece again on the way back: memory holds one piece's activations, the loss sees
            all vectors. 0 computes all at once.
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        pooling: Pooling = "mean",
        normalise: bool = True,
        dense: Dense | None = None,
        piece: int = 0,
    ) -> None:
        super().__init__()
        if pooling not in _FLAGS:
            raise InvalidInputError(
                f"pooling {pooling!r}", hint=f"Valid names: {', '.join(_FLAGS)}."
            )
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None  # type: ignore[assignment]  # a module or none
        self.encoder, self.dense = encoder, dense
        self.pooling: Pooling = pooling
        self.normalise, self.piece = normalise, piece

    @property
    def config(self) -> Any:
        """The encoder's."""
        return self.encoder.config

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """A vector for each row."""
        if not self.piece or len(ids) <= self.piece or not torch.is_grad_enabled():
            return self._vectors(ids, mask)
        from torch.utils.checkpoint import checkpoint

        pieces = [slice(at, at + self.piece) for at in range(0, len(ids), self.piece)]
        return torch.cat(
            [checkpoint(self._vectors, ids[n], mask[n], use_reentrant=False) for n in pieces]
        )

    def _vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        if ids.device.type == "cpu":  # where looking does not make anything wait
            width = max(1, int(mask.sum(1).max()))
            ids, mask = ids[:, :width], mask[:, :width]
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        made = pool_tokens(texts.upcast_half(hidden), mask, self.pooling)
        if self.dense is not None:
            made = texts.upcast_half(self.dense(made))
        return F.normalize(made, dim=-1, eps=1e-12) if self.normalise else made


def pool_tokens(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """One vector of a row's tokens; rows are filled up at their ends."""
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        last = (mask.sum(1) - 1).clamp(min=0)
        return hidden[torch.arange(len(hidden), device=hidden.device), last]
    there = mask[:, :, None].to(hidden.dtype)
    if pooling == "max":
        return hidden.masked_fill(there == 0, -torch.inf).amax(1)
    count = there.sum(1).clamp(min=1)
    return (hidden * there).sum(1) / (count if pooling == "mean" else count.sqrt())


def from_folder(folder: Path, *, dense: Path | None = None, **options: Any) -> SentenceModel:
    """The model of an encoder's folder."""
    layer = None if dense is None else Dense.of(dense)
    encoder, _ = texts.load_pretrained("AutoModel", folder)
    return SentenceModel(encoder, dense=layer, **options)


def from_state(
    config: Mapping[str, Any], state: Mapping[str, Tensor], **options: Any
) -> SentenceModel:
    """A BERT of these weights."""
    transformers = texts.import_transformers()
    with texts.quiet_transformers():
        encoder = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)
    encoder.load_state_dict(dict(state))
    return SentenceModel(encoder, **options)


def save(
    model: SentenceModel, cutter: Cutter, folder: Path, *, prompts: Mapping[str, str] | None = None
) -> None:
    """A folder that sentence-transformers and `anyrig embed --model` take."""
    texts.save_weights(model.encoder, folder)
    cutter.save(folder)
    names = ["Transformer", "Pooling"]
    size = int(model.config.hidden_size)
    told: dict[str, Any] = {"word_embedding_dimension": size, "include_prompt": True}
    told |= {flag: name == model.pooling for name, flag in _FLAGS.items()}
    write_json(folder / "1_Pooling" / "config.json", told)
    if model.dense is not None:
        _save_dense(model.dense, folder / f"{len(names)}_Dense")
        names.append("Dense")
    if model.normalise:
        (folder / f"{len(names)}_Normalize").mkdir(exist_ok=True)
        names.append("Normalize")
    modules = [
        {"idx": number, "name": str(number), "path": f"{number}_{name}" if number else "",
         "type": f"{_MODULES}.{name}"}
        for number, name in enumerate(names)
    ]  # fmt: skip
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": cutter.longest, "do_lower_case": cutter.lower},
    )
    write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": dict(prompts or {}), "default_prompt_name": None},
    )
    write_json(folder / "modules.json", modules)


def _save_dense(layer: Dense, folder: Path) -> None:
    from safetensors.torch import save_file

    linear = layer.linear
    kind = "activation.Tanh" if layer.tanh else "linear.Identity"
    told = {"in_features": linear.in_features, "out_features": linear.out_features,
            "bias": linear.bias is not None,
            "activation_function": f"torch.nn.modules.{kind}"}  # fmt: skip
    write_json(folder / "config.json", told)
    state = {f"linear.{name}": value.detach().float().cpu().contiguous()
             for name, value in linear.state_dict().items()}  # fmt: skip
    save_file(state, str(folder / "model.safetensors"))
