"""A model that is given many items and computes a few at a time, for a loss that needs them all."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


class CannotSplit(Exception):  # noqa: N818 - a finding, and the caller's to answer
    """What a model gives for some of its items cannot be put together."""


class InPieces:
    """Passes for a model: calls of it are cut along the first side, and the outputs joined again.

    Only calls are cut; whatever else is asked of it, the model answers.
    """

    def __init__(self, model: nn.Module, items: int) -> None:
        self.__dict__.update(_model=model, _items=items)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model, items = self.__dict__["_model"], self.__dict__["_items"]
        leaves, spec = pytree.tree_flatten((args, kwargs))
        size = next((len(one) for one in leaves if _sided(one)), 0)
        if size <= items:
            return model(*args, **kwargs)
        found = []
        for start in range(0, size, items):
            some = [
                one[start : start + items] if _sided(one) and len(one) == size else one
                for one in leaves
            ]
            given, named = pytree.tree_unflatten(some, spec)
            found.append(model(*given, **named))
        return _joined(found, [min(items, size - start) for start in range(0, size, items)])

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """A loss may ask what kind of model it has."""
        return type(self.__dict__["_model"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_model"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_model"], name, value)


def _sided(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dim() > 0


def _joined(found: list[Any], sizes: list[int]) -> Any:
    flat = [pytree.tree_flatten(one) for one in found]
    first = flat[0][1]
    if any(spec != first for _, spec in flat):
        raise CannotSplit
    return pytree.tree_unflatten(
        [_one(parts, sizes) for parts in zip(*(leaves for leaves, _ in flat), strict=True)], first
    )


def _one(parts: tuple[Any, ...], sizes: list[int]) -> Any:
    if all(_sided(one) and len(one) == size for one, size in zip(parts, sizes, strict=True)):
        return torch.cat(parts)
    same = all(
        torch.equal(one, parts[0]) if isinstance(one, torch.Tensor) else one == parts[0]
        for one in parts
    )
    if not same:
        raise CannotSplit
    return parts[0]
