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

from anyrig.documents.tokenizer import read_max_tokens
from anyrig.errors import InvalidInputError, MissingWeightsError

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
_TOKENIZERS = (
    "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model",
    "tokenizer.model", "tokenizer_config.json",
)  # fmt: skip
_DEFAULT_LONGEST = 512
_MIN_POSITIONS = 8


@dataclass(frozen=True)
class ModelConfig:
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
    lower: bool = False
    """Whether texts are made small letters first."""


def read_model_config(folder: Path) -> ModelConfig:
    """What the folder says."""
    try:
        return _read(folder)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInputError(
            f"the configuration in {folder} is damaged: {error}", hint="Download it again."
        ) from error


def _read(folder: Path) -> ModelConfig:
    modules = read_json(folder / "modules.json", [])
    if not modules:
        return _plain(folder, folder)
    inner, pooling, normalise, dense, whole = folder, "mean", False, None, True
    for module in modules:
        if not isinstance(module, dict):
            raise InvalidInputError(
                f"modules.json of {folder.name} is damaged", hint="Download it again."
            )
        kind = str(module.get("type", "")).rpartition(".")[2]
        path = folder / str(module.get("path", ""))
        if kind == "Transformer":
            inner = path
        elif kind == "Pooling":
            pooled = read_json(path / "config.json", {})
            pooling, whole = _pooling(pooled), bool(pooled.get("include_prompt", True))
        elif kind == "Normalize":
            normalise = True
        elif kind == "Dense" and dense is None:
            dense = path
        elif kind != "Dropout":
            raise InvalidInputError(
                f"{folder.name} has a module {kind or 'without a name'} that is not supported",
                hint="Transformer, Pooling, one Dense and Normalize are.",
            )
    plain = _plain(folder, inner)
    settings = read_json(folder / "config_sentence_transformers.json", {})
    prompts = _prompts(settings)
    if prompts and not whole:
        raise InvalidInputError(
            f"{folder.name} leaves its prompts out when it pools, which is not supported",
            hint="Models whose Pooling has include_prompt, as most have, can be used.",
        )
    shaping = (*plain.shaping, *(sorted(dense.glob("*.safetensors")) if dense else ()))
    shaping += (dense / "config.json",) if dense and (dense / "config.json").is_file() else ()
    lower = any(
        read_json(base / "sentence_bert_config.json", {}).get("do_lower_case") is True
        for base in (inner, folder)
    )
    return ModelConfig(
        inner, plain.config, plain.longest, _dense_size(dense) or plain.dimension, pooling,
        normalise, dense, prompts, shaping, lower,
    )  # fmt: skip


def _plain(folder: Path, inner: Path) -> ModelConfig:
    config = read_json(inner / "config.json", {})
    most = count_positions(config)
    longest = read_max_tokens(inner, read_max_tokens(folder, most) if folder != inner else most)
    size = config.get("hidden_size") or config.get("dim") or config.get("d_model") or 0
    shaping = [inner / "config.json", find_tokenizer(folder, inner)]
    if not shaping[1].is_file():
        shaping += [inner / name for name in _TOKENIZERS]
    there = tuple(path for path in shaping if path.is_file())
    return ModelConfig(inner, config, longest, int(size), shaping=there)


def _pooling(config: Mapping[str, Any]) -> str:
    named = config.get("pooling_mode")
    if isinstance(named, str):
        found = [_NAMED.get(named, named)]
    else:
        found = [ours for theirs, ours in _POOLINGS.items() if config.get(theirs)]
    if len(found) != 1 or found[0] == "weightedmean":
        said = " and ".join(found) or "none"
        raise InvalidInputError(
            f"pooling by {said} is not supported", hint="mean, cls, max or last are."
        )
    return found[0]


def _prompts(settings: Mapping[str, Any]) -> dict[str, str]:
    """By use; sentence-transformers calls a passage a document as well."""
    prompts = settings.get("prompts") or {}
    usual = prompts.get(settings.get("default_prompt_name") or "", "")
    found = {"query": prompts.get("query", usual),
             "passage": prompts.get("passage", prompts.get("document", usual))}  # fmt: skip
    return {use: text for use, text in found.items() if text}


def _dense_size(dense: Path | None) -> int:
    return int(read_json(dense / "config.json", {}).get("out_features", 0)) if dense else 0


def list_weights(folder: Path) -> list[Path]:
    """The files with the encoder's weights."""
    from anyrig.documents.models.arrays import list_weight_files

    return list_weight_files(folder)


def find_onnx_file(folder: Path, inner: Path) -> Path | None:
    """An ONNX file of the encoder, if there is one."""
    tries = [base / name for base in dict.fromkeys((folder, inner)) for name in _ONNX]
    return next((path for path in tries if path.is_file()), None)


def list_extra_files(files: Sequence[Path]) -> list[Path]:
    """Files in which ONNX keeps large weights, named after the model."""
    tries = [file.with_name(f"{file.name}{end}") for file in files for end in ("_data", ".data")]
    return [path for path in tries if path.is_file()]


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a model, and nothing that is still being fetched."""
    if not (folder / "config.json").is_file() or any(folder.rglob("*.part")):
        return False
    inner = read_model_config(folder).folder
    return bool(list_weights(inner)) or find_onnx_file(folder, inner) is not None


def detect_form(folder: Path, config: Mapping[str, Any], has_weights: bool, has_onnx: bool) -> Form:
    """How the folder's model is run."""
    from anyrig.documents.models.families import is_packable

    if has_onnx:
        return "onnx"
    if not has_weights:
        raise MissingWeightsError(
            f"{folder} contains no model",
            hint="It needs config.json and the file model.safetensors, or model.onnx.",
        )
    return "encoder" if is_packable(config) else "auto"


def find_tokenizer(folder: Path, inner: Path) -> Path:
    """The tokenizer.json; `tokenise` makes one of other files where it is not there."""
    for base in (inner, folder):
        if (base / "tokenizer.json").is_file():
            return base / "tokenizer.json"
    return inner / "tokenizer.json"


def read_config(folder: Path, *, hint: str) -> dict[str, Any]:
    """The config.json of a folder; InvalidInputError if there is none."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{folder} is not a model: config.json: {error}", hint=hint
        ) from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"{folder} is not a model: config.json is not an object", hint=hint)
    return found


def count_positions(config: Mapping[str, Any]) -> int:
    """The most tokens that a model has positions for; 512 if it does not say."""
    from anyrig.documents.models.families import get_position_offset

    most = config.get("max_position_embeddings")
    if not isinstance(most, int) or most < _MIN_POSITIONS:
        return _DEFAULT_LONGEST
    return most - get_position_offset(config)


def read_json(path: Path, default: Any) -> Any:
    """What a file holds, if that is of the default's kind."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return default
    return found if isinstance(found, type(default)) else default
