"""Which tensors live, and how many bytes they held at the most: books kept while operations run.

Every operation's results are entered with their storages, which leave the books when the last
tensor on them is gone; views enter nothing. It works on tensors with data and without, and is what
an allocator would count: sizes are rounded up as torch's caching allocator does.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from anyrig.training.estimating.chosen import at_most

Part = Literal["weights", "gradients", "state", "batch", "activations", "elsewhere"]
"""`elsewhere` is not on the device: entered, but not counted."""
ROUNDING = 512
"""Bytes: the caching allocator's smallest piece."""
Workspace = Callable[[str, tuple[Any, ...], Any], int]
"""What a kernel takes for itself: of an operation's name, its arguments and its results."""


class Books(TorchDispatchMode):
    """Enters what operations make while it is open.

    Args:
        rounding: sizes are multiples of this; 1 counts bytes as they are.
        workspace: what kernels take beside their results, gone when they end.
    """

    def __init__(self, *, rounding: int = ROUNDING, workspace: Workspace | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rounding, self._workspace = rounding, workspace
        self._sizes: dict[int, tuple[weakref.ref[Any], int, Part]] = {}
        self._live: Counter[Part] = Counter()
        self.counting = True
        """Whether results are entered: what only stands for what is there already is not."""
        self.phase = ""
        self.peaks: dict[str, int] = {}
        """The most bytes in each phase."""
        self.at_peak: Mapping[str, int] = {}
        """What was live when most of all was, by part, and `workspace`."""

    @property
    def live_bytes(self) -> int:
        """Held now."""
        return self._live.total() - self._live["elsewhere"]

    @property
    def peak_bytes(self) -> int:
        """The most that was ever held."""
        return max(self.peaks.values(), default=0)

    def live(self, part: Part) -> int:
        """Held now by a part."""
        return self._live[part]

    def enter(self, tensors: Iterable[torch.Tensor], part: Part) -> None:
        """Tensors that are there already, or that belong to a part from now on."""
        for tensor in tensors:
            self._book(tensor, part)
            key = id(tensor.untyped_storage())
            ref, size, before = self._sizes[key]
            self._live[before] -= size
            self._live[part] += size
            self._sizes[key] = (ref, size, part)
        self._mark(0)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and enter its results."""
        results = at_most(func, args, kwargs or {})
        if not self.counting:
            return results
        for tensor in _tensors(results):
            self._book(tensor, "activations")
        extra = self._workspace(str(func), args, results) if self._workspace is not None else 0
        self._mark(extra)
        return results

    def _book(self, tensor: torch.Tensor, part: Part) -> None:
        storage = tensor.untyped_storage()
        key = id(storage)
        found = self._sizes.get(key)
        if found is not None and found[0]() is storage:
            return
        size = -(-storage.nbytes() // self._rounding) * self._rounding

        def gone(_: Any) -> None:
            ref, held, owner = self._sizes.pop(key)
            self._live[owner] -= held

        self._sizes[key] = (weakref.ref(storage, gone), size, part)
        self._live[part] += size

    def _mark(self, extra: int) -> None:
        now = self.live_bytes + extra
        if now > self.peak_bytes:
            self.at_peak = {str(part): n for part, n in self._live.items()} | {"workspace": extra}
        if now > self.peaks.get(self.phase, -1):
            self.peaks[self.phase] = now


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
