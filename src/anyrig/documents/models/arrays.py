"""An encoder's weights as arrays, from a folder or from a package; no framework is needed.

A folder holds config.json and safetensors, in one file or in several. The default model comes as an
ONNX file whose matrices are 8-bit numbers with a scale for each column: its weights are taken out
of it, so that it runs wherever any encoder does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anyrig.documents.models.families import (
    Array,
    EncoderShape,
    EncoderWeights,
    build_weights,
    read_shape,
)
from anyrig.errors import InvalidInputError, MissingWeightsError

_ONE = ("model.safetensors", "pytorch_model.safetensors")
_INDEX = "model.safetensors.index.json"
_KINDS = {
    "F32": np.float32, "F16": np.float16, "F64": np.float64, "I8": np.int8, "I64": np.int64,
    "I32": np.int32, "I16": np.int16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
# The matrices of a layer, in the order in which the packaged file has them.
_ORDER = (
    "attention.self.query", "attention.self.key", "attention.self.value",
    "attention.output.dense", "intermediate.dense", "output.dense",
)  # fmt: skip
# What the packaged BERT is, beside its weights.
_HEADS, _HIDDEN, _EPS = 12, 384, 1e-12
_PLACES = "embeddings.position_embeddings.weight"


def read_encoder(folder: Path) -> tuple[EncoderShape, EncoderWeights[Array]]:
    """The shape and the weights of a folder's encoder, or of a packaged file."""
    if folder.suffix == ".onnx":
        return _read_packaged(folder)
    config = folder / "config.json"
    files = list_weight_files(folder)
    if not config.is_file() or not files:
        raise MissingWeightsError(
            f"{folder} contains no encoder", hint="It needs config.json and model.safetensors."
        )
    shape = read_shape(json.loads(config.read_text(encoding="utf-8")))
    state: dict[str, Array] = {}
    for file in files:
        state |= read_tensors(file)
    try:
        return shape, build_weights(state, shape)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{files[0]} does not fit its config.json: {error.message}", hint=error.hint
        ) from None


def list_weight_files(folder: Path) -> list[Path]:
    """The safetensors of a folder's model."""
    for name in _ONE:
        if (folder / name).is_file():
            return [folder / name]
    try:
        entry = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"]
        files = [folder / name for name in sorted(set(entry.values()))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    for file in files:
        if not file.is_file():
            raise MissingWeightsError(
                f"{file} is missing", hint=f"{_INDEX} names it: download the model again."
            )
    return files


def read_tensors(file: Path) -> dict[str, Array]:
    """The arrays of a safetensors file, floats as fp32."""
    from safetensors import SafetensorError, deserialize

    try:
        parts = deserialize(file.read_bytes())  # type: ignore[no-untyped-call]
    except (OSError, SafetensorError) as error:
        raise MissingWeightsError(
            f"{file} cannot be read: {error}",
            hint="Download it again: it is damaged or incomplete.",
        ) from error
    try:
        return {name: _array(entry) for name, entry in parts}
    except ValueError as error:  # a length that is not that of its shape
        raise MissingWeightsError(
            f"{file} cannot be read: {error}", hint="Download it again: it is damaged."
        ) from error


def _array(entry: Mapping[str, Any]) -> Array:
    shape, kind, data = entry["shape"], entry["dtype"], entry["data"]
    if kind == "BF16":  # the upper half of a 32-bit number
        wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    if kind not in _KINDS:
        raise MissingWeightsError(f"weights in {kind}", hint="fp32, fp16 and bf16 can be read.")
    found = np.frombuffer(data, _KINDS[kind]).reshape(shape)
    return found.astype(np.float32) if kind in ("F16", "F64") else found


def _read_packaged(file: Path) -> tuple[EncoderShape, EncoderWeights[Array]]:
    """BERT out of an ONNX file; its hash was checked, so what is where is known."""
    state = _state(file)
    shape = EncoderShape("bert", _HEADS, _HIDDEN, _EPS, "gelu", len(state[_PLACES]))
    return shape, build_weights(state, shape)


def _state(file: Path) -> dict[str, Array]:
    """The packaged weights by BERT's own names: all floats, but words as 8-bit rows and scales."""
    from anyrig.backends.onnx_graph import read_weights

    found = read_weights(file.read_bytes())
    state = {name.removeprefix("inner."): value for name, value in found.items()}
    words = "embeddings.word_embeddings"
    state[f"{words}.weight"], state[f"{words}.scale"] = (
        state.pop(f"{words}.weight_q"), state.pop(f"{words}.weight_scale")
    )  # fmt: skip
    state[_PLACES] = state.pop(f"{_PLACES}_q") * state.pop(f"{_PLACES}_scale")
    layers = len({name.split(".")[2] for name in state if name.startswith("encoder.layer.")})
    names = [f"encoder.layer.{n}.{part}.weight" for n in range(layers) for part in _ORDER]
    matrices = [name for name in state if name.startswith("val_") and name.endswith("_q")]
    for target, name in zip(names, matrices, strict=True):
        values, scale = state.pop(name), state.pop(f"{name.removesuffix('_q')}_scale")
        state[target] = (values * scale).T
    return state


def read_packaged_floats(file: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The packaged BERT as transformers knows it: a config, and all its weights in fp32."""
    state = _state(file)
    words = "embeddings.word_embeddings"
    state[f"{words}.weight"] = state[f"{words}.weight"] * state.pop(f"{words}.scale")
    wanted = ("embeddings.", "encoder.layer.")
    floats = {
        name: np.array(value, np.float32, order="C")
        for name, value in state.items()
        if name.startswith(wanted) and name.endswith(("weight", "bias"))
    }
    inner = floats["encoder.layer.0.intermediate.dense.weight"]
    config = {
        "vocab_size": len(floats[f"{words}.weight"]),
        "hidden_size": _HIDDEN,
        "num_hidden_layers": len({name.split(".")[2] for name in floats if "layer." in name}),
        "num_attention_heads": _HEADS,
        "intermediate_size": len(inner),
        "hidden_act": "gelu",
        "max_position_embeddings": len(floats[_PLACES]),
        "type_vocab_size": len(floats["embeddings.token_type_embeddings.weight"]),
        "layer_norm_eps": _EPS,
        "pad_token_id": 0,
    }
    return config, floats
