"""Nests of tensors and plain values as JSON beside a flat list of tensors, and back, exactly.

Dictionaries keep their order and the types of their keys, tuples stay tuples, floats keep all bits.
A tensor that is in a nest twice is there twice again, not copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from anyrig.errors import InvalidInputError

Json: TypeAlias = Any
Take = Callable[[torch.Tensor], str]
"""Keeps a tensor and gives the name it is kept under."""
_TAG = "$"


def encode(value: Any, take: Take, where: str = "") -> Json:
    """The nest as JSON values that share nothing with it; tensors are handed to `take`."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, torch.Tensor):
        return {"$tensor": take(value)}
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        return _mapping(value, take, where)
    if isinstance(value, list | tuple | set | frozenset):
        items = [encode(one, take, f"{where}[{n}]") for n, one in enumerate(value)]
        return items if isinstance(value, list) else {f"${_kind(value)}": items}
    return _rare(value, where)


def _number(value: float) -> Json:
    if isinstance(value, int):
        return int(value)
    number = float(value)  # numpy's float is a float too
    return number if math.isfinite(number) else {"$float": repr(number)}


def _kind(value: object) -> str:
    if isinstance(value, torch.Size):
        return "size"
    kinds = (tuple, frozenset, set)
    return next(kind.__name__ for kind in kinds if isinstance(value, kind))


def _mapping(value: Mapping[Any, Any], take: Take, where: str) -> Json:
    if all(type(key) is str and not key.startswith(_TAG) for key in value):
        return {key: encode(one, take, f"{where}.{key}") for key, one in value.items()}
    pairs = [
        [encode(key, take, f"{where} key"), encode(one, take, f"{where}.{key}")]
        for key, one in value.items()
    ]
    return {"$pairs": pairs}


def _rare(value: Any, where: str) -> Json:
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, complex):
        return {"$complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, torch.dtype):
        return {"$dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"$device": str(value)}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return encode(value.item(), _never, where)
    raise InvalidInputError(
        f"{where.strip('.') or 'it'} is a {type(value).__name__}, which a checkpoint cannot store",
        hint="Numbers, texts, tensors, and lists, tuples and dictionaries of them can be kept.",
    )


def _never(tensor: torch.Tensor) -> str:
    raise AssertionError("a number is no tensor")


def decode(value: Json, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The nest again. What is not of `encode` raises ValueError or KeyError."""
    if isinstance(value, list):
        return [decode(one, tensors) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, held),) = value.items()
        if key.startswith(_TAG):
            return _tagged(key, held, tensors)
    return {key: decode(one, tensors) for key, one in value.items()}


def _tagged(tag: str, held: Json, tensors: Mapping[str, torch.Tensor]) -> Any:
    if tag == "$tensor":
        return tensors[held]
    if tag == "$pairs":
        return {decode(key, tensors): decode(one, tensors) for key, one in held}
    if tag in _SEQUENCES:
        return _SEQUENCES[tag]([decode(one, tensors) for one in held])
    if tag in _SCALARS:
        return _SCALARS[tag](held)
    raise ValueError(f"{tag} is not known")


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name} is not a supported dtype")
    return found


_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "$tuple": tuple, "$set": set, "$frozenset": frozenset, "$size": torch.Size,
}  # fmt: skip
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": bytes.fromhex,
    "$complex": lambda held: complex(float(held[0]), float(held[1])),
    "$dtype": _dtype,
    "$device": torch.device,
}
