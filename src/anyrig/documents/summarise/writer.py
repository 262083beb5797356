"""A model that writes summaries (BART, T5, Pegasus and their kin), found without loading it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError, Message, MissingWeightsError, OptionRef
from anyrig.placement import Workload
from anyrig.storage.weights import find_cached_repository
from anyrig.work.engine import EngineFactory

ENGINE = "anyrig.documents.summarise.seq2seq:Seq2Seq"
VERSION = "1"
_LONGEST = 512
"""Tokens of a window where the model does not say: what T5 was taught on."""
_MOST = 4_096
_HINT = (
    "Pass a folder saved by transformers: config.json of an encoder-decoder, tokenizer, weights."
)
# Families that read and then write; others may say so by `is_encoder_decoder`.
_KNOWN = frozenset("bart mbart t5 mt5 umt5 longt5 pegasus pegasus_x led bigbird_pegasus marian "
                   "blenderbot prophetnet m2m_100 nllb-moe encoder-decoder".split())  # fmt: skip


@dataclass(frozen=True)
class Writer:
    """A sequence-to-sequence model in a folder."""

    name: str
    folder: Path
    longest: int
    """Tokens it reads at once."""
    prefix: str = ""
    """What stands before a text to say that a summary is wanted, as T5 was taught."""
    beams: int = 4
    length_penalty: float = 1.0
    weights_bytes: int = 0

    def need(self) -> Workload:
        """What its workers ask for; fp16 is left out, as T5 overflows in it."""
        return Workload(
            name=f"the summariser {self.name}",
            libraries=("torch",),
            precisions=("bf16", "fp32"),
            worker_bytes=self.weights_bytes * 2 + (300 << 20),
        )

    def recipe(self) -> EngineFactory:
        """How a worker makes its engine."""
        options = {
            "folder": str(self.folder), "prefix": self.prefix, "longest": self.longest,
            "beams": self.beams, "length_penalty": self.length_penalty,
        }  # fmt: skip
        return EngineFactory(ENGINE, options, f"summarise {self.name}", VERSION)


def find(name: str, *, models: Path, fetch: Callable[[str, Path], None] | None = None) -> Writer:
    """The model that a name stands for.

    Args:
        name: a folder, or `owner/name` on the hub.
        models: where fetched weights lie.
        fetch: gets a repository into a folder; without it only what is there is taken.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return in_folder(folder.resolve())
    if name.startswith((".", "~", "/")) or name.count("/") > 1 or not name.strip():
        raise InvalidInputError(f"there is no folder {name}", hint=_HINT)
    kept = models / "documents" / name.replace("/", "--")
    if not (kept / "config.json").is_file() and (cached := find_cached_repository(name)):
        return in_folder(cached, name=name)
    if not (kept / "config.json").is_file():
        if fetch is None:
            raise MissingWeightsError(
                f"{name} is not on this machine",
                hint=Message(
                    "{fetch} downloads it from the hub, or put its files into {kept}.",
                    fetch=OptionRef("fetch"),
                    kept=kept,
                ),
            )
        fetch(name, kept)
    return in_folder(kept, name=name)


def in_folder(folder: Path, *, name: str = "") -> Writer:
    """The model of a folder; InvalidInputError when it is none that writes."""
    config = _config(folder)
    kind = str(config.get("model_type", ""))
    if not (config.get("is_encoder_decoder") or kind in _KNOWN):
        raise InvalidInputError(
            f"{folder} contains a model of type {kind or 'unknown'}, which cannot summarise",
            hint="Name a sequence-to-sequence model, such as BART, T5 or Pegasus.",
        )
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    if not weights:
        raise MissingWeightsError(f"{folder} contains no weights", hint=_HINT)
    told = _task(config)
    return Writer(
        name or folder.name,
        folder,
        _longest(config),
        str(told.get("prefix", "summarize: " if kind == "t5" else "")),
        _whole(told.get("num_beams"), 4),
        float(told.get("length_penalty") or 1.0),
        sum(path.stat().st_size for path in weights),
    )


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{folder} is not a model: config.json: {error}", hint=_HINT
        ) from error
    if not isinstance(found, dict):
        raise InvalidInputError(
            f"{folder} is not a model: config.json is not an object", hint=_HINT
        )
    return found


def _task(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the model says of summaries, where it says so."""
    tasks = config.get("task_specific_params")
    told = tasks.get("summarization") if isinstance(tasks, dict) else None
    return told if isinstance(told, dict) else {}


def _longest(config: Mapping[str, Any]) -> int:
    """Tokens that it reads at once: by its positions; those of T5 are relative, so as taught."""
    names = ("max_encoder_position_embeddings", "max_position_embeddings", "n_positions")
    for name in names:
        count = config.get(name)
        if isinstance(count, int) and count > 0:
            return min(count, _MOST)
    return _LONGEST


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and 1 <= value <= 16 else default
