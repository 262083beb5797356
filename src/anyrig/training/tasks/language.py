"""A causal language model from text: GPT-2's architecture from nothing, or a Hugging Face folder.

    [task]
    kind = "language"
    text = ["books", "notes/*.md"]
    model = "tiny"

Tokens are bytes, those of a `tokenizer.json`, or made from the text; they lie in the run's folder
as one long row, and a window of it is an item. In the end there are a Hugging Face folder and a
sample of what the model writes.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anyrig.errors import InvalidSettingError
from anyrig.storage.files import write_atomic
from anyrig.storage.weights import find_cached_repository
from anyrig.text.manifest import is_manifest
from anyrig.training.batch import Batch
from anyrig.training.lora import adapt, merge_lora, save_lora
from anyrig.training.losses import IGNORED, LanguageLoss
from anyrig.training.models.gpt import PRESETS, Gpt, GptShape
from anyrig.training.tasks import (
    Task,
    corpus,
    read_allowed_files,
    read_lora,
    read_table,
    require_path,
    resolve_path,
    seed_torch,
    texts,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LanguageConfig:
    """The `[task]` table."""

    text: tuple[str, ...] = ()
    """Files, folders or glob patterns of documents."""
    data: str = ""
    """Instead of `text`: a manifest (a CSV or JSON lines with `text` or `file`), or a file of token
    ids of the `tokenizer`, as 16-bit integers, or 32-bit in a file that ends in .uint32."""
    files: str = ""
    """A JSON file that maps file names in the manifest to paths; no other file is opened."""
    model: str | Mapping[str, Any] = "tiny"
    """A preset, a table of sizes (which may name a `preset`), or a Hugging Face folder."""
    lora: int | Mapping[str, Any] = 0
    """Train LoRA adapters of this rank, or a table with `rank`, `alpha`, `dropout`, `targets` and
    `adapter`, beside the frozen weights of a Hugging Face model; 0 trains all weights."""
    tokenizer: str = "auto"
    """`bytes`, `train`, or a tokenizer.json; `auto`: that of the model's folder, else `bytes`."""
    vocabulary: int = 4096
    """Vocabulary size of `tokenizer = "train"`."""
    context: int = 0
    """Context length in tokens; 0: the model's maximum."""
    separate_documents: bool = False
    """Pack documents into a window with boundaries: attention does not cross them, and positions
    start again at each."""
    validation: float = 0.05
    """Fraction of the text, at its end, used for validation."""
    prompt: str = ""
    """Prompt of the sample that is generated at the end."""
    sample: int = 200
    """Length of the sample in tokens; 0 generates none."""
    temperature: float = 0.8
    """Sampling temperature; lower is more predictable."""
    top_k: int = 50
    """Sample from the k most likely tokens."""

    def __post_init__(self) -> None:
        if bool(self.text) == bool(self.data):
            problem = "both text and data" if self.text else "no text"
            raise InvalidSettingError(
                f"[task] names {problem}", hint='Set text = "folder", or data = "file".'
            )
        if self.data and self.tokenizer == "train" and not is_manifest(Path(self.data)):
            raise InvalidSettingError(
                "[task] a tokenizer cannot be trained on tokens", hint="Name the one they are of."
            )
        if not 0 <= self.validation < 1:
            raise InvalidSettingError(
                f"[task] validation is {self.validation}", hint="It must be at least 0 and below 1."
            )
        if self.context < 0:
            raise InvalidSettingError(
                f"[task] context is {self.context}", hint="From 1 up; 0 is what the model sees."
            )


def build(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    """The job of a `[task]` table; see `anyrig.training.tasks.build`."""
    settings = read_table(LanguageConfig, values)
    words = _open_tokenizer(settings, folder, run)
    if settings.data and not is_manifest(Path(settings.data)):
        row = corpus.open_token_file(
            require_path(folder, settings.data, "the row of tokens"), words
        )
    else:
        name = [settings.data] if settings.data else settings.text
        row = corpus.tokenize_corpus(run, name, lambda: _open_corpus(settings, folder), words)
    for path, reason in row.skipped.items():
        log.warning("%s is left out: %s", path, reason)
    with seed_torch(seed):
        model, context = _build_model(settings, folder, words)
    lora = read_lora(settings.lora)
    adapted = None
    if lora is not None:
        if isinstance(model, Gpt):
            raise InvalidSettingError(
                "[task] lora trains little beside what a model knows, and this one is new",
                hint="Name a Hugging Face folder, or leave lora out.",
            )
        adapted = adapt(model, lora, folder)
    loss = LanguageLoss()
    end = _find_boundary(model, words) if settings.separate_documents else None
    data, validation = corpus.split_windows(row, context, settings.validation, end)
    return Task(
        name="language",
        model=model,
        data=data,
        validation=validation,
        loss=loss,
        units=count_targets,
        metrics={"perplexity": Perplexity()},
        finish=LanguageOutput(
            model, words, settings, seed, context, _find_source(settings, folder), adapted
        ),
        skipped=row.skipped,
    )


def _open_corpus(settings: LanguageConfig, folder: Path) -> corpus.Corpus:
    if not settings.data:
        return corpus.find_files(settings.text, folder)
    path = require_path(folder, settings.data, "the manifest")
    return corpus.Corpus(
        (path,), is_manifest=True, resolve=read_allowed_files(folder, settings.files)
    )


def _open_tokenizer(settings: LanguageConfig, folder: Path, run: Path) -> corpus.Tokens:
    word = settings.tokenizer
    source = _find_source(settings, folder)
    if source is not None:
        return corpus.load_tokenizer(source)
    if word in ("auto", "bytes"):
        return corpus.build_byte_tokenizer()
    if word != "train":
        return corpus.load_tokenizer(require_path(folder, word, "the tokenizer"))
    saved = run / f"tokenizer-{settings.vocabulary}.json"
    if saved.exists():
        return corpus.load_tokenizer(saved)
    text = _open_corpus(settings, folder).pieces()
    made = corpus.train_tokenizer((piece for piece in text if piece), settings.vocabulary)
    made.save(saved)
    return made


def _find_source(settings: LanguageConfig, folder: Path) -> Path | None:
    """The model's folder where its own tokenizer is wanted."""
    if settings.tokenizer != "auto" or not isinstance(settings.model, str):
        return None
    return _find_folder(settings.model, folder)


def _find_folder(name: str, folder: Path) -> Path | None:
    """The folder of a model, below that of the configuration or in the hub's cache."""
    path = resolve_path(folder, name)
    is_there = (path / "config.json").is_file()
    if is_there and name in PRESETS:
        raise InvalidSettingError(
            f"[task] model is {name!r}, which is a preset and a folder",
            hint=f'Say "./{name}" for the folder, {{ preset = "{name}" }} for a new model.',
        )
    return path if is_there else find_cached_repository(name)


def _build_model(
    settings: LanguageConfig, folder: Path, words: corpus.Tokens
) -> tuple[nn.Module, int]:
    if isinstance(settings.model, str) and (path := _find_folder(settings.model, folder)):
        return _load_pretrained(path, settings.context, words)
    shape = _read_shape(settings)
    context = settings.context or shape.context
    shape = dataclasses.replace(shape, vocabulary=words.size, context=max(context, shape.context))
    return Gpt(shape), context


def _read_shape(settings: LanguageConfig) -> GptShape:
    sizes = {"preset": settings.model} if isinstance(settings.model, str) else dict(settings.model)
    preset = sizes.pop("preset", "tiny")
    if preset not in PRESETS:
        raise InvalidSettingError(
            f"[task] model is {preset!r}, which is no preset and no folder with a config.json",
            hint=f"Presets are: {', '.join(PRESETS)}. Or give a Hugging Face folder.",
        )
    return read_table(GptShape, {**dataclasses.asdict(PRESETS[preset]), **sizes}, "task.model")


def _load_pretrained(path: Path, context: int, words: corpus.Tokens) -> tuple[nn.Module, int]:
    """A Hugging Face causal model; nothing is fetched, and no code of the folder is run."""
    model: Any
    model, _ = texts.load_pretrained("AutoModelForCausalLM", path)
    rows = int(model.get_input_embeddings().num_embeddings)
    if words.size > rows:
        raise InvalidSettingError(
            f"the tokenizer has {words.size} tokens, the model {rows} rows",
            hint='Use the model\'s own: tokenizer = "auto".',
        )
    longest = int(getattr(model.config, "max_position_embeddings", 0) or 1024)
    if context > longest:
        raise InvalidSettingError(
            f"[task] context is {context}, the model sees {longest} tokens",
            hint=f"Set context = {longest} or less.",
        )
    return model, context or min(longest, 1024)


def _find_boundary(model: nn.Module, words: corpus.Tokens) -> int:
    """The token that ends a document, for a model that can keep documents apart."""
    if words.end is None:
        raise InvalidSettingError(
            "[task] separate_documents needs a tokenizer with a token that ends a text",
            hint="Leave it out, or use another tokenizer.",
        )
    if not isinstance(model, Gpt) and not _keeps_documents_apart(model):
        raise InvalidSettingError(
            f"[task] separate_documents: attention of a {type(model).__name__} crosses documents",
            hint="Leave it out, or choose a model of another family.",
        )
    return words.end


@torch.no_grad()
def _keeps_documents_apart(model: nn.Module) -> bool:
    """Whether a document's logits are those that it has alone, behind another of its row."""
    was_training = model.training
    model.eval()
    other, own = torch.tensor([[3, 1, 2]]), torch.tensor([[2, 0, 1, 3]])
    positions = torch.cat([torch.arange(3), torch.arange(4)])[None]
    try:
        found = model(
            input_ids=torch.cat([other, own], 1), position_ids=positions, use_cache=False
        ).logits
    except TypeError:  # it takes no positions
        return False
    packed = found[:, 3:]
    alone = model(input_ids=own, use_cache=False).logits
    model.train(was_training)
    return torch.allclose(packed, alone, atol=1e-4, rtol=1e-3)


def compute_logits(model: nn.Module, window: torch.Tensor) -> torch.Tensor:
    """Logits of our models and of transformers'."""
    made = model(window)
    logits: torch.Tensor = made if isinstance(made, torch.Tensor) else made.logits
    return logits


def count_targets(batch: Batch) -> int:
    """How many targets count."""
    return int((batch.get("labels", batch["tokens"])[:, 1:] != IGNORED).sum())


class Perplexity:
    """How many tokens the model wavers between, on average: e to the mean loss."""

    of_loss = True
    """It is made of the loss' own sum and count: no further pass of the model."""

    @staticmethod
    def after(mean: float) -> float:
        """What the mean over all batches becomes."""
        return math.exp(min(mean, 700.0))


@dataclass(frozen=True)
class LanguageOutput:
    """Writes the model as a Hugging Face folder, and what it says."""

    model: nn.Module
    words: corpus.Tokens
    settings: LanguageConfig
    seed: int
    context: int
    source: Path | None = None
    """The Hugging Face folder whose tokenizer it is."""
    adapted: Any = None
    """The model with its LoRA adapter, if it has one."""

    def __call__(self, folder: Path) -> Mapping[str, Any]:
        """What was written where."""
        written: dict[str, Any] = {"model": str(folder / "model")}
        model = self.model
        if self.adapted is not None:
            written["adapter"] = str(save_lora(self.adapted, folder / "adapter"))
            model = merge_lora(self.adapted)
        _export(model, self.words, folder / "model", self.source, self.context)
        if self.settings.sample > 0:
            text = self.settings.prompt + self.sample()
            write_atomic(folder / "sample.txt", text)
            written["sample"] = text
        return written

    def sample(self) -> str:
        """A text drawn from the model, the same for the same weights and seed."""
        device = next(self.model.parameters()).device
        start = [int(one) for one in next(self.words.encode([self.settings.prompt or "\n"]))]
        row = torch.tensor([start], device=device)
        generator = torch.Generator(device=device).manual_seed(self.seed)
        options = self.settings
        made = generate(
            self.model, row, options.sample, options.temperature, options.top_k, generator
        )
        return self.words.decode(made[0, len(start) :].tolist())


@torch.no_grad()
def generate(
    model: nn.Module,
    row: torch.Tensor,
    count: int,
    temperature: float = 1.0,
    top_k: int = 0,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """A row of tokens with `count` more, drawn one by one from any causal model.

    Temperature 0 takes the likeliest token each time; `top_k` draws among so many of the likeliest,
    0 among all.
    """
    config: Any = getattr(model, "config", None)
    if isinstance(model, Gpt):
        longest = model.shape.context
    else:
        longest = int(getattr(config, "max_position_embeddings", 1024))
    was_training = model.training
    model.eval()
    try:
        for _ in range(count):
            logits = compute_logits(model, row[:, -longest:])[:, -1].float()
            row = torch.cat((row, _draw(logits, temperature, top_k, generator)), dim=1)
    finally:
        model.train(was_training)
    return row


def _draw(
    logits: torch.Tensor, temperature: float, top_k: int, generator: torch.Generator | None
) -> torch.Tensor:
    """One token for each row of logits, as a column."""
    if temperature <= 0:
        return logits.argmax(dim=-1, keepdim=True)
    logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    return torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)


def _export(
    model: nn.Module, words: corpus.Tokens, folder: Path, source: Path | None, context: int
) -> None:
    """A folder that transformers opens, with the tokenizer it was trained with."""
    from anyrig.training.export import export_folder

    if source is not None:  # all that came with the model goes on with it
        export_folder(model, folder, tokenizer_files=[source])
        return
    ends = {"bos_token_id": words.end, "eos_token_id": words.end}
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": words.end_word,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        words.save(place / "tokenizer.json")
        write_atomic(place / "tokenizer_config.json", json.dumps(about, indent=2))
        export_folder(model, folder, config=ends, tokenizer_files=[place])
