"""Operations whose results are as large as their data say: without data, as large as they can be.

`logits[mask]`, `nonzero` and `masked_select` then take all elements, which is the most that a step
can need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Arguments = tuple[Any, ...]


def at_most(operation: Any, args: Arguments, kwargs: Mapping[str, Any]) -> Any:
    """The results of an operation; of one that chooses among elements without data, all of them."""
    largest = _CHOOSING.get(str(operation))
    if largest is None or not _without_data(args[0]):
        return operation(*args, **kwargs)
    return largest(operation, args)


def _without_data(value: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def _places(mask: torch.Tensor) -> torch.Tensor:
    return mask.new_empty((mask.numel(), mask.dim()), dtype=torch.long)


def _nonzero(operation: Any, args: Arguments) -> torch.Tensor:
    return _places(args[0])


def _selected(operation: Any, args: Arguments) -> torch.Tensor:
    given, mask = torch.broadcast_tensors(args[0], args[1])  # type: ignore[no-untyped-call]
    found: torch.Tensor = given.new_empty(mask.numel())
    return found


def _indexed(operation: Any, args: Arguments) -> Any:
    """By numbers instead of by a mask: the same result, and what is kept is told to be as large."""
    indices: list[torch.Tensor | None] = []
    for one in args[1]:
        if one is not None and one.dtype in (torch.bool, torch.uint8):
            indices += _places(one).unbind(1)
        else:
            indices.append(one)
    return operation(args[0], indices, *args[2:])


_CHOOSING: Mapping[str, Callable[[Any, Arguments], Any]] = {
    "aten.nonzero.default": _nonzero,
    "aten.masked_select.default": _selected,
    "aten.index.Tensor": _indexed,
    "aten.index_put.default": _indexed,
    "aten.index_put_.default": _indexed,
    "aten._index_put_impl_.default": _indexed,
}
