"""Batches of any nesting: how many items, a piece of them, the same on a device.

Lists, tuples, mappings and dataclasses are gone through. Tensors and arrays are counted and cut
along their first side. A list without tensors in it (texts, names) counts and is cut as one when
it is as long as the tensors' first side; all else is passed on as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch

from anyrig.errors import InvalidInputError

T = TypeVar("T")


def size_of(batch: object) -> int:
    """How many items a batch has."""
    return _size(batch)


def cut(batch: T, start: int, stop: int) -> T:
    """The items from start to stop, without a copy; the batch itself when that is all of it."""
    size = _size(batch)
    if start <= 0 and stop >= size:
        return batch

    def piece(leaf: Any) -> Any:
        if _sided(leaf) or (isinstance(leaf, (list, tuple)) and len(leaf) == size):
            return leaf[start:stop]
        return leaf

    found: T = mapped(batch, piece)
    return found


def to_device(batch: T, device: torch.device | str) -> T:
    """The batch with its tensors on a device. From pinned memory the host does not wait."""
    place = torch.device(device)

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            # A host tensor would be read before it is filled if a copy to the host did not wait.
            return leaf.to(place, non_blocking=place.type != "cpu")
        move = getattr(leaf, "to", None)
        return move(place) if callable(move) else leaf

    found: T = mapped(batch, moved)
    return found


def pinned(batch: T) -> T:
    """The batch with its host tensors in memory that a device can read by itself."""

    def held(leaf: Any) -> Any:
        on_host = isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu"
        return leaf.pin_memory() if on_host and not leaf.is_sparse else leaf

    found: T = mapped(batch, held)
    return found


def bytes_of(batch: object) -> int:
    """What a batch's tensors and arrays take."""
    return sum(int(getattr(leaf, "nbytes", 0)) for _, leaf in leaves(batch) if _sided(leaf))


def tensors_of(batch: object) -> Iterator[torch.Tensor]:
    """All tensors in a batch."""
    return (leaf for _, leaf in leaves(batch) if isinstance(leaf, torch.Tensor))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest with its leaves changed. A list without tensors in it is a leaf."""
    inner = _inner(value)
    if inner is None:
        return change(value)
    made = {key: mapped(one, change) for key, one in inner.items()}
    if isinstance(value, Mapping):
        return made if type(value) is dict else _rebuilt(value, made)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*made.values())
    if isinstance(value, (list, tuple)):
        return type(value)(made.values())
    return dataclasses.replace(value, **made)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with the way to it: `[0].labels`."""
    inner = _inner(value)
    if inner is None:
        yield path or "the batch", value
        return
    for key, one in inner.items():
        step = f"[{key!r}]" if isinstance(value, (list, tuple, Mapping)) else f".{key}"
        yield from leaves(one, path + step)


def _rebuilt(value: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    kind: Any = type(value)
    try:
        return kind(made)
    except TypeError:  # a mapping with a constructor of its own goes on as a plain one
        return made


def _inner(value: Any) -> dict[Any, Any] | None:
    """What a container holds; None for a leaf."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        if any(_holds_sided(one) for one in value):
            return dict(enumerate(value))
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
    return None


def _holds_sided(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_sided(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_sided(one) for one in value)
    return isinstance(value, torch.Tensor) or _sided(value)


def _sided(leaf: object) -> bool:
    shape = getattr(leaf, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0


def _size(batch: object) -> int:
    found: dict[int, str] = {}
    lists: dict[int, str] = {}
    for path, leaf in leaves(batch):
        if _sided(leaf):
            found.setdefault(int(leaf.shape[0]), path)
        elif isinstance(leaf, (list, tuple)):
            lists.setdefault(len(leaf), path)
    sizes = found or lists
    if not sizes:
        raise InvalidInputError(
            "a batch without tensors or lists cannot be counted",
            hint="Let collate put items' tensors behind each other along the first side.",
        )
    if len(sizes) > 1:
        (one, where), (other, there) = list(sizes.items())[:2]
        raise InvalidInputError(
            f"a batch contradicts itself: {where} has {one} items and {there} has {other}",
            hint="Let collate give every tensor the items along its first side; what is the same "
            "for all items may be a number or a tensor without sides.",
        )
    return next(iter(sizes))
