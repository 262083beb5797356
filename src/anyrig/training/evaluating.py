"""A model measured on data that it is not trained on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import nn

from anyrig.errors import OutOfMemoryError
from anyrig.memory.recovery import ReleasableDevice, run_with_recovery
from anyrig.training.checkpoint import random
from anyrig.training.feed import Feed
from anyrig.training.given_loader import items_of
from anyrig.training.in_pieces import CannotSplit, InPieces
from anyrig.training.nests import cut, size_of, to_device
from anyrig.training.protocol import Batch, Figure, Group, Loss, Units
from anyrig.training.step import StartAgain

if TYPE_CHECKING:
    from anyrig.precision.policy import PrecisionPolicy


T = TypeVar("T")
_ALIKE, _ALIKE_IN_HALF = 1e-3, 2e-2
_SAMPLE = 8


class Evaluation:
    """Measures a model.

    A loss that is a mean over items is measured in micro batches. One that looks across its batch,
    as a contrastive one does, would be another with every micro batch: it is measured over batches
    of a fixed size, and only the model's own passes are cut. Which kind it is says the attribute
    `across_batch` of the loss; without one it is found out by a trial on a few items.

    The loss is computed in the run's precision, further figures in fp32: cosines in bf16 are
    full of ties.

    Args:
        data: a data set with `len` and `[number]`, or a DataLoader of one.
        loss: the mean over a batch's units.
        batch: items that a loss across its batch sees at once; a DataLoader's own where it has one.
        micro_batch: items at once; halved when memory runs out.
        applied: the precision at work.
        device: where the model is.
        group: whose processes share the items.
        units: how many units a batch has; its items when None.
        figures: further figures by name.
        collate: items to a batch.
        handle: what gives memory back after a shortage.
    """

    def __init__(
        self,
        data: Any,
        loss: Loss,
        *,
        batch: int,
        micro_batch: int,
        applied: PrecisionPolicy,
        device: torch.device,
        group: Group,
        units: Units | None = None,
        figures: Mapping[str, Figure] | None = None,
        collate: Any = None,
        handle: ReleasableDevice | None = None,
    ) -> None:
        self._loss, self._applied, self._device, self._group = loss, applied, device, group
        self._units, self._figures = units or size_of, dict(figures or {})
        self._batch = batch
        if isinstance(data, torch.utils.data.DataLoader):
            self._batch = data.batch_size or batch
            data, collate = items_of(data), collate or data.collate_fn
        self._data, self._collate, self._handle = data, collate, handle
        self.micro_batch = micro_batch
        self._across: bool | None = getattr(loss, "across_batch", None)
        self._splits: bool | None = None

    def __call__(self, model: nn.Module) -> dict[str, float]:
        """Every figure over all items, `loss` first.

        Mode and random states are afterwards what they were.
        """
        training, states = model.training, random.capture(self._device)
        model.eval()
        try:
            while True:
                # A second try draws the same numbers.
                random.restore({0: states}, 0, self._device)
                if self._find_kind(model):
                    outcome = self._attempted(lambda: self._sums(model))
                    if outcome is not None:
                        break
                self._shrink()
        finally:
            model.train(training)
            # A loss may draw numbers, as diffusion does: training goes on as if nobody had looked.
            random.restore({0: states}, 0, self._device)
        return {name: self._value(name, sums) for name, sums in outcome.items()}

    def _attempted(self, work: Callable[[], T]) -> T | None:
        """What came of it; None where any process ran out of memory."""
        outcome = run_with_recovery(work, self._handle)
        if self._group.lockstep and not outcome.succeeded:
            # The others wait inside the model: nothing can be agreed on any more.
            raise StartAgain(max(1, self.micro_batch // 2))
        return outcome.result if self._group.least(int(outcome.succeeded)) else None

    def _shrink(self) -> None:
        if self.micro_batch == 1 or (self._across and self._splits is False):
            raise OutOfMemoryError(
                "a single item does not fit in memory while the model is measured"
                if self.micro_batch == 1
                else f"{self._batch} items do not fit in memory while the model is measured, and "
                "its loss and outputs cannot be computed in parts",
                hint="Take shorter items for validation, a DataLoader with a smaller batch_size, "
                "or a smaller model.",
            )
        self.micro_batch = self._group.least(self.micro_batch // 2)

    def _sums(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """For each figure a row of sums and a row of counts, over this process' items."""
        sums: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            # A batch that is computed at once is whole, whatever its loss looks at.
            whole = self._across is not False and (self._across or not self._cuts)
            asked = _in_pieces(model, self.micro_batch) if whole and self._splits else model
            for batch, counts in self._whole() if whole else self._mine():
                given = self._applied.cast_inputs(to_device(batch, self._device))
                for name, pair in self._measured(asked, given, batch, self._applied.autocast()):
                    pair = pair if counts else torch.zeros_like(pair)
                    sums[name] = sums[name] + pair if name in sums else pair
        return sums

    def _measured(
        self,
        model: nn.Module,
        given: Batch,
        batch: Batch,
        around_loss: AbstractContextManager[object],
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Every figure's sum and count; the same names for every batch, in every process."""
        count = self._units(batch)
        loss = 0.0
        if count:
            with around_loss:
                loss = float(self._loss(model, given).detach())
        pair = torch.tensor([loss * count, float(count)], dtype=torch.float64)
        yield "loss", pair
        with self._in_full(model):
            for name, figure in self._figures.items():
                if getattr(figure, "of_loss", False):
                    yield name, pair
                else:
                    yield name, torch.stack([_wide(one) for one in figure(model, given)])

    def _in_full(self, model: nn.Module) -> AbstractContextManager[object]:
        """Without autocast, where the weights are not in half themselves."""
        return contextlib.nullcontext() if _is_full(model) else self._applied.autocast()

    def _find_kind(self, model: nn.Module) -> bool:
        """Find out whether the loss looks across its batch, and whether the model's passes can be
        cut then; False where memory ran out in the trial.
        """
        if self._across is False or self._splits is not None or not self._cuts:
            return True
        found = self._attempted(lambda: self._trial(model))
        if found is None:
            return False
        if self._group.size > 1:
            across, whole = self._group.agree(torch.tensor([found[0], not found[1]])).tolist()
            found = bool(across), not whole
        self._across, self._splits = found
        return True

    @property
    def _cuts(self) -> bool:
        """Whether a batch is too large to be computed at once."""
        return self.micro_batch < min(self._batch, len(self._data))

    @torch.no_grad()
    def _trial(self, model: nn.Module) -> tuple[bool, bool]:
        """On a few items, whole, in halves, and with the model's passes in halves."""
        count = min(self._batch, len(self._data), max(2, min(_SAMPLE, self.micro_batch)))
        batch = next(iter(self._read(range(count), count)))
        given = self._applied.cast_inputs(to_device(batch, self._device))
        whole = self._tried(model, given, batch)
        across = self._across
        if across is None:
            halves = [self._cut_pairs(model, batch, *ends) for ends in _halves(count)]
            summed = {name: halves[0][name] + halves[1][name] for name in whole}
            across = not self._near(model, whole, summed)
        if not across:
            return False, False
        try:
            split = self._tried(_in_pieces(model, max(1, count // 2)), given, batch)
        except CannotSplit:
            return True, False
        return True, self._near(model, whole, split)

    def _near(
        self, model: nn.Module, some: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]
    ) -> bool:
        near = _ALIKE if _is_full(model) else _ALIKE_IN_HALF
        return all(
            torch.allclose(one, others[name], rtol=near, atol=1e-6) for name, one in some.items()
        )

    def _cut_pairs(
        self, model: nn.Module, batch: Batch, first: int, last: int
    ) -> dict[str, torch.Tensor]:
        some = cut(batch, first, last)
        return self._tried(model, self._applied.cast_inputs(to_device(some, self._device)), some)

    def _tried(self, model: nn.Module, given: Batch, batch: Batch) -> dict[str, torch.Tensor]:
        states = random.capture(self._device)
        try:
            return dict(self._measured(model, given, batch, self._in_full(model)))
        finally:
            random.restore({0: states}, 0, self._device)

    def _mine(self) -> Iterator[tuple[Batch, bool]]:
        """This process' items, in order, and whether they count.

        Processes in lockstep all look at all of them. One that is left without an item looks at the
        first: all have to name the same figures when they add them up.
        """
        group = self._group
        first, step = (0, 1) if group.lockstep else (group.rank, group.size)
        mine = range(first, len(self._data), step)
        for batch in self._read(mine or range(1), self.micro_batch):
            yield batch, bool(mine)

    def _whole(self) -> Iterator[tuple[Batch, bool]]:
        """This process' batches, each whole, and whether they count; the same in any number of
        processes.
        """
        group, size, total = self._group, self._batch, len(self._data)
        first, step = (0, 1) if group.lockstep else (group.rank, group.size)
        starts = range(first * size, total, step * size)
        mine = [number for start in starts for number in range(start, min(start + size, total))]
        for batch in self._read(mine or range(1), size):
            yield batch, bool(mine)

    def _read(self, numbers: Sequence[int], size: int) -> Iterator[Batch]:
        part = torch.utils.data.Subset(self._data, numbers)
        feed = Feed(part, size, shuffle=False, drop_last=False, collate=self._collate)
        for fed in feed.over():
            yield fed.batch

    def _value(self, name: str, sums: torch.Tensor) -> float:
        if not self._group.lockstep:
            sums = self._group.total(sums)
        top, bottom = sums[0].flatten(), sums[1].flatten()
        counted = bottom != 0
        mean = float((top[counted] / bottom[counted]).mean()) if bool(counted.any()) else 0.0
        after = getattr(self._figures.get(name), "after", None)
        return float(after(mean)) if after is not None else mean


def _wide(value: float | torch.Tensor) -> torch.Tensor:
    """In fp64 on the host; there first, as not every device has fp64."""
    host = value.detach().cpu() if isinstance(value, torch.Tensor) else value
    return torch.as_tensor(host, dtype=torch.float64)


def _in_pieces(model: nn.Module, items: int) -> nn.Module:
    found: Any = InPieces(model, items)
    return cast("nn.Module", found)


def _halves(count: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, count // 2), (count // 2, count)


def _is_full(model: nn.Module) -> bool:
    """Whether no weight is in half."""
    full = (torch.float32, torch.float64)
    return all(one.dtype in full for one in model.parameters() if one.is_floating_point())
