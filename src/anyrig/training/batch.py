"""Batches in nested containers: how many items, a slice of them, the same on a device.

Lists, tuples, mappings and dataclasses are containers. Tensors and arrays count and are cut along
their first dimension; a list without tensors in it (texts, names) is cut as one where it is as long
as they are; anything else is passed on as it is. A batch whose parts do not agree on a number of
items, such as the targets of object detection, cannot be cut: it runs whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import torch

T = TypeVar("T")
Batch: TypeAlias = Any
"""What a loader gives: a tensor, a container of tensors, or any object."""


def count_items(batch: Batch) -> int:
    """How many items a batch has; of one that cannot be cut, as far as it can be told."""
    size = slice_length(batch)
    if size is not None:
        return size
    for leaf in leaves(batch):
        if _has_length(leaf):
            return int(leaf.shape[0])
        if isinstance(leaf, (list, tuple)) and leaf:
            return len(leaf)
    return 1


def slice_length(batch: Batch) -> int | None:
    """The number of items that a batch can be cut into; None where it runs whole."""
    if _is_ragged(batch):
        return None
    lengths: set[int] = set()
    lists: set[int] = set()
    for leaf in leaves(batch):
        if _has_length(leaf):
            lengths.add(int(leaf.shape[0]))
        elif isinstance(leaf, (list, tuple)):
            lists.add(len(leaf))
    found = lengths or lists
    return next(iter(found)) if len(found) == 1 else None


def _is_ragged(batch: Batch) -> bool:
    """Whether it has lists of items, such as images of several sizes, in place of stacked ones."""
    if not isinstance(batch, (list, tuple)):
        return False
    for one in batch:
        if isinstance(one, (list, tuple)) and not hasattr(one, "_fields"):
            shapes = {leaf.shape for leaf in one if isinstance(leaf, torch.Tensor)}
            if len(shapes) > 1:
                return True
    return False


def slice_batch(batch: T, start: int, stop: int) -> T:
    """The items from start to stop, without a copy; the batch itself where that is all of it."""
    size = slice_length(batch)
    if size is None or (start <= 0 and stop >= size):
        return batch

    def cut(leaf: Any) -> Any:
        if _has_length(leaf) or (isinstance(leaf, (list, tuple)) and len(leaf) == size):
            return leaf[start:stop]
        return leaf

    found: T = map_leaves(batch, cut)
    return found


def to_device(batch: T, device: torch.device | str) -> T:
    """The batch with its tensors on a device. From pinned memory the host does not wait."""
    place = torch.device(device)

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            # A host tensor would be read before it is filled if a copy to the host did not wait.
            return leaf.to(place, non_blocking=place.type != "cpu")
        to = getattr(leaf, "to", None)
        return to(place) if callable(to) else leaf

    found: T = map_leaves(batch, move)
    return found


def num_bytes(batch: Batch) -> int:
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in leaves(batch) if _has_length(leaf))


def tensors_of(batch: Batch) -> Iterator[torch.Tensor]:
    return (leaf for leaf in leaves(batch) if isinstance(leaf, torch.Tensor))


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same containers with their leaves changed. A list without tensors in it is a leaf."""
    inner = _inner(value)
    if inner is None:
        return change(value)
    made = {key: map_leaves(one, change) for key, one in inner.items()}
    if isinstance(value, Mapping):
        return made if type(value) is dict else _rebuild(value, made)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*made.values())
    if isinstance(value, (list, tuple)):
        return type(value)(made.values())
    return dataclasses.replace(value, **made)


def leaves(value: object) -> Iterator[Any]:
    inner = _inner(value)
    if inner is None:
        yield value
        return
    for one in inner.values():
        yield from leaves(one)


def _rebuild(value: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
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
        if any(_holds_tensors(one) for one in value):
            return dict(enumerate(value))
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
    return None


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_tensors(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_tensors(one) for one in value)
    return isinstance(value, torch.Tensor) or _has_length(value)


def _has_length(leaf: object) -> bool:
    shape = getattr(leaf, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0
