"""What a model's folder says of itself: sentence-transformers' modules, or a plain encoder.

modules.json lists a Transformer, a Pooling, perhaps Dense layers and a Normalize. Without it a text
is the mean of its tokens, normalised: what most encoders are trained for, and said in the docs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.documents.tokenise import longest_of
from anyrig.errors import BadInput, NeedsWeights

if TYPE_CHECKING:
    from anyrig.documents.model import Form

_POOLINGS = {
    "pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max", "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt",
    "pooling_mode_lasttoken": "last", "pooling_mode_weightedmean_tokens": "weightedmean",
}  # fmt: skip
_NAMED = {"cls": "cls", "mean": "mean", "max": "max", "lasttoken": "last",
          "mean_sqrt_len_tokens": "mean_sqrt"}  # fmt: skip
_ONNX = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx", "onnx/model_fp16.onnx")
_DEFAULT_LONGEST = 512


@dataclass(frozen=True)
class Told:
    """What a folder says."""

    folder: Path
    """Where the encoder lies: the folder itself, or one in it."""
    config: Mapping[str, Any]
    longest: int
    dimension: int
    pooling: str = "mean"
    normalise: bool = True
    dense: Path | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    shaping: tuple[Path, ...] = ()
    """Files beside the weights that shape a vector."""


def read(folder: Path) -> Told:
    """What the folder says."""
    modules = _json(folder / "modules.json", None)
    if not isinstance(modules, list):
        return _plain(folder, folder)
    inner, pooling, normalise, dense = folder, "mean", False, None
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        path = folder / str(module.get("path", ""))
        if kind == "Transformer":
            inner = path
        elif kind == "Pooling":
            pooling = _pooling(_json(path / "config.json", {}))
        elif kind == "Normalize":
            normalise = True
        elif kind == "Dense" and dense is None:
            dense = path
        elif kind != "Dropout":
            raise BadInput(
                f"{folder.name} has a module {kind or 'without a name'} that is not known here",
                hint="Transformer, Pooling, one Dense and Normalize are.",
            )
    plain = _plain(folder, inner)
    told = _json(folder / "config_sentence_transformers.json", {})
    return Told(
        inner, plain.config, plain.longest, _dense_size(dense) or plain.dimension, pooling,
        normalise, dense, _prompts(told), plain.shaping,
    )  # fmt: skip


def _plain(folder: Path, inner: Path) -> Told:
    config = _json(inner / "config.json", {})
    offset = (
        2 if config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet") else 0
    )
    most = int(config.get("max_position_embeddings") or _DEFAULT_LONGEST + offset) - offset
    longest = longest_of(inner, longest_of(folder, most) if folder != inner else most)
    size = config.get("hidden_size") or config.get("dim") or config.get("d_model") or 0
    names = ("config.json", "tokenizer.json", "vocab.txt")
    shaping = tuple(inner / name for name in names if (inner / name).is_file())
    return Told(inner, config, longest, int(size), shaping=shaping)


def _pooling(config: Mapping[str, Any]) -> str:
    named = config.get("pooling_mode")
    if isinstance(named, str):
        found = [_NAMED.get(named, named)]
    else:
        found = [ours for theirs, ours in _POOLINGS.items() if config.get(theirs)]
    if len(found) != 1 or found[0] == "weightedmean":
        said = " and ".join(found) or "none"
        raise BadInput(f"pooling by {said} is not known here", hint="mean, cls, max or last are.")
    return found[0]


def _prompts(told: Mapping[str, Any]) -> dict[str, str]:
    """By use; sentence-transformers calls a passage a document as well."""
    prompts = told.get("prompts") or {}
    usual = prompts.get(told.get("default_prompt_name") or "", "")
    found = {"query": prompts.get("query", usual),
             "passage": prompts.get("passage", prompts.get("document", usual))}  # fmt: skip
    return {use: text for use, text in found.items() if text}


def _dense_size(dense: Path | None) -> int:
    return int(_json(dense / "config.json", {}).get("out_features", 0)) if dense else 0


def weights(folder: Path) -> list[Path]:
    """The files with the encoder's weights."""
    from anyrig.documents.models.arrays import weight_files

    return weight_files(folder)


def onnx_file(folder: Path, inner: Path) -> Path | None:
    """An ONNX file of the encoder, if there is one."""
    tries = [base / name for base in dict.fromkeys((folder, inner)) for name in _ONNX]
    return next((path for path in tries if path.is_file()), None)


def beside(files: Sequence[Path]) -> list[Path]:
    """Files in which ONNX keeps large weights, named after the model."""
    tries = [file.with_name(f"{file.name}{end}") for file in files for end in ("_data", ".data")]
    return [path for path in tries if path.is_file()]


def form(family: str, has_weights: bool, has_onnx: bool) -> Form:
    """How the folder's model is run."""
    from anyrig.documents.models.families import FAMILIES

    if has_onnx:
        return "onnx"
    if not has_weights:
        raise NeedsWeights(
            "the folder holds no model",
            hint="It needs config.json and model.safetensors, or model.onnx.",
        )
    return "encoder" if family in FAMILIES else "auto"


def tokenizer(folder: Path, inner: Path) -> Path:
    """The tokenizer.json; `tokenise` makes one of other files where it is not there."""
    for base in (inner, folder):
        if (base / "tokenizer.json").is_file():
            return base / "tokenizer.json"
    return inner / "tokenizer.json"


def _json(path: Path, default: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return default
