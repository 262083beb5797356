"""What a model's folder says of itself: sentence-transformers' modules, or a plain encoder.

modules.json lists a Transformer, a Pooling, perhaps Dense layers and a Normalize. Without it a text
is the mean of its tokens, normalised: what most encoders are trained for, and said in the docs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anyrig.documents.model import EmbeddingModel, Form, make_fingerprint
from anyrig.documents.tokenizer import read_max_tokens
from anyrig.errors import InvalidInputError, Message, MissingWeightsError, OptionRef
from anyrig.storage.weights import find_cached_repository, hash_files

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


Fetch = Callable[[str, Path], None]
"""Gets a repository of the hub into a folder."""


def find_hub_folder(
    name: str, models: Path, fetch: Fetch | None, is_model: Callable[[Path], bool]
) -> Path:
    """The folder of `owner/name` on the hub: fetched before or put there by hand, in the cache of
    huggingface_hub, or fetched now.

    Args:
        name: of the repository.
        models: where fetched weights lie.
        fetch: without it only what is there is taken.
        is_model: whether a folder holds what is wanted.
    """
    folder = models / "documents" / name.replace("/", "--")
    cached = None if is_model(folder) else find_cached_repository(name)
    if cached is not None and is_model(cached):
        return cached
    if not is_model(folder):
        if fetch is None:
            raise MissingWeightsError(
                f"{name} is not on this machine",
                hint=Message(
                    "Pass {fetch} to download it, or copy its files to {folder}.",
                    fetch=OptionRef("fetch"),
                    folder=folder,
                ),
            )
        fetch(name, folder)
    return folder


def has_config(folder: Path) -> bool:
    """Whether a folder looks like a model of transformers."""
    return (folder / "config.json").is_file()


def is_complete(folder: Path) -> bool:
    """Whether a folder holds an encoder, and nothing that is still being fetched."""
    if not has_config(folder) or any(folder.rglob("*.part")):
        return False
    from anyrig.documents.models.arrays import list_weight_files

    inner = _read_modules(folder).inner
    return bool(list_weight_files(inner)) or find_onnx_file(folder, inner) is not None


def in_folder(folder: Path, *, name: str, file: Path | None = None) -> EmbeddingModel:
    """The embedding model of a folder, as sentence-transformers or transformers saved it.

    Args:
        folder: the folder.
        name: of the model.
        file: an ONNX file in it, which is run instead of the weights.
    """
    try:
        return _read(folder, name, file)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInputError(
            f"the configuration in {folder} is damaged: {error}", hint="Download it again."
        ) from error


def _read(folder: Path, name: str, file: Path | None) -> EmbeddingModel:
    from anyrig.documents.models.arrays import list_weight_files
    from anyrig.documents.models.graph import is_writable

    modules = _read_modules(folder)
    inner = modules.inner
    config = read_json(inner / "config.json", {})
    most = count_positions(config)
    longest = read_max_tokens(inner, read_max_tokens(folder, most) if folder != inner else most)
    dense = read_json(modules.dense / "config.json", {}) if modules.dense else {}
    dimension = int(
        dense.get("out_features")
        or config.get("hidden_size") or config.get("dim") or config.get("d_model") or 0
    )  # fmt: skip
    weights = list_weight_files(inner)
    onnx = file or find_onnx_file(folder, inner)
    form = _detect_form(folder, config, weights, onnx is not None and bool(file or not weights))
    if not dimension:
        raise InvalidInputError(
            f"{folder} does not say how long its vectors are",
            hint="Its config.json, with hidden_size, belongs beside the weights.",
        )
    run = [onnx] if onnx is not None and form == "onnx" else weights
    files = [*run, *_list_shaping(folder, modules), *_list_extra_files(run)]
    activation = str(config.get("hidden_act") or config.get("activation") or "gelu")
    family = str(config.get("model_type", ""))
    prompts = json.dumps(sorted(modules.prompts.items()))
    return EmbeddingModel(
        name, run[0] if form == "onnx" else inner, longest, dimension, modules.pooling,
        modules.normalise,
        make_fingerprint(
            hash_files(files), modules.pooling, str(modules.normalise), str(longest),
            str(modules.lower), prompts,
        ),
        form=form, overlap=min(32, longest // 8), tokenizer=_find_tokenizer(folder, inner),
        dense=modules.dense, lower=modules.lower, prompts=modules.prompts,
        weights_bytes=sum(path.stat().st_size for path in files),
        graph=form == "onnx"
        or (form == "encoder" and is_writable(family, activation, modules.pooling)),
        torch=form != "onnx",
    )  # fmt: skip


class _Modules(NamedTuple):
    """What sentence-transformers' files say."""

    inner: Path
    """Where the encoder lies: the folder itself, or one in it."""
    pooling: str = "mean"
    normalise: bool = True
    dense: Path | None = None
    prompts: Mapping[str, str] = {}
    lower: bool = False
    """Whether texts are made small letters first."""


def _read_modules(folder: Path) -> _Modules:
    modules = read_json(folder / "modules.json", [])
    if not modules:
        return _Modules(folder)
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
    prompts = _prompts(read_json(folder / "config_sentence_transformers.json", {}))
    if prompts and not whole:
        raise InvalidInputError(
            f"{folder.name} leaves its prompts out when it pools, which is not supported",
            hint="Models whose Pooling has include_prompt, as most have, can be used.",
        )
    lower = any(
        read_json(base / "sentence_bert_config.json", {}).get("do_lower_case") is True
        for base in (inner, folder)
    )
    return _Modules(inner, pooling, normalise, dense, prompts, lower)


def _list_shaping(folder: Path, modules: _Modules) -> list[Path]:
    """Files beside the weights that shape a vector."""
    inner, dense = modules.inner, modules.dense
    tokenizer = _find_tokenizer(folder, inner)
    found = [inner / "config.json", tokenizer]
    if not tokenizer.is_file():
        found += [inner / name for name in _TOKENIZERS]
    if dense is not None:
        found += [*sorted(dense.glob("*.safetensors")), dense / "config.json"]
    return [path for path in found if path.is_file()]


def _pooling(config: Mapping[str, Any]) -> str:
    named = config.get("pooling_mode")
    if isinstance(named, str):
        found = [_NAMED.get(named, named)]
    else:
        found = [ours for theirs, ours in _POOLINGS.items() if config.get(theirs)]
    if len(found) != 1 or found[0] == "weightedmean":
        names = " and ".join(found) or "none"
        raise InvalidInputError(
            f"pooling by {names} is not supported", hint="mean, cls, max or last are."
        )
    return found[0]


def _prompts(settings: Mapping[str, Any]) -> dict[str, str]:
    """By use; sentence-transformers calls a passage a document as well."""
    prompts = settings.get("prompts") or {}
    usual = prompts.get(settings.get("default_prompt_name") or "", "")
    found = {"query": prompts.get("query", usual),
             "passage": prompts.get("passage", prompts.get("document", usual))}  # fmt: skip
    return {use: text for use, text in found.items() if text}


def find_onnx_file(folder: Path, inner: Path) -> Path | None:
    """An ONNX file of the encoder, if there is one."""
    tries = [base / name for base in dict.fromkeys((folder, inner)) for name in _ONNX]
    return next((path for path in tries if path.is_file()), None)


def _list_extra_files(files: Sequence[Path]) -> list[Path]:
    """Files in which ONNX keeps large weights, named after the model."""
    tries = [file.with_name(f"{file.name}{end}") for file in files for end in ("_data", ".data")]
    return [path for path in tries if path.is_file()]


def _detect_form(
    folder: Path, config: Mapping[str, Any], weights: Sequence[Path], has_onnx: bool
) -> Form:
    """How the folder's model is run."""
    from anyrig.documents.models.families import is_packable

    if has_onnx:
        return "onnx"
    if not weights:
        raise MissingWeightsError(
            f"{folder} contains no model",
            hint="It needs config.json and the file model.safetensors, or model.onnx.",
        )
    return "encoder" if is_packable(config) else "auto"


def _find_tokenizer(folder: Path, inner: Path) -> Path:
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
