"""A model measured on data that it is not trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.errors import OutOfMemory
from anyrig.memory.oom import recognise
from anyrig.memory.recover import Holder, attempt
from anyrig.training.checkpoint import random
from anyrig.training.feed import Feed
from anyrig.training.nests import size_of, to_device
from anyrig.training.protocol import Batch, Figure, Group, Loss, Units
from anyrig.training.step import StartAgain

if TYPE_CHECKING:
    from anyrig.precision.apply import Applied


class Evaluation:
    """Measures a model.

    Args:
        data: a data set with `len` and `[number]`, or a DataLoader of one.
        loss: the mean over a batch's units.
        micro_batch: items at once; halved when memory runs out.
        applied: the number format at work.
        device: where the model is.
        group: whose processes share the items.
        units: how many units a batch has; its items when None.
        figures: further figures by name.
        collate: items to a batch.
        bound: what gives memory back after a shortage.
    """

    def __init__(
        self,
        data: Any,
        loss: Loss,
        *,
        micro_batch: int,
        applied: Applied,
        device: torch.device,
        group: Group,
        units: Units | None = None,
        figures: Mapping[str, Figure] | None = None,
        collate: Any = None,
        bound: Holder | None = None,
    ) -> None:
        self._loss, self._applied, self._device, self._group = loss, applied, device, group
        self._units, self._figures = units or size_of, dict(figures or {})
        if isinstance(data, torch.utils.data.DataLoader):
            data, collate = data.dataset, collate or data.collate_fn
        self._data, self._collate, self._bound = data, collate, bound
        self.micro_batch = micro_batch

    def __call__(self, model: nn.Module) -> dict[str, float]:
        """Every figure over all items, `loss` first.

        Mode and random states are afterwards what they were.
        """
        training, states = model.training, random.capture(self._device)
        model.eval()
        try:
            while True:
                outcome = attempt(lambda: self._sums(model), recognise, self._bound)
                if self._group.lockstep and not outcome.fitted:
                    # The others wait inside the model: nothing can be agreed on any more.
                    raise StartAgain(max(1, self.micro_batch // 2))
                ran_out = self._group.least(int(outcome.fitted)) == 0
                if not ran_out:
                    break
                if self.micro_batch == 1:
                    raise OutOfMemory(
                        "a single item does not fit in memory while the model is measured",
                        hint="Take shorter items for validation, or a smaller model.",
                    )
                self.micro_batch = self._group.least(self.micro_batch // 2)
        finally:
            model.train(training)
            # A loss may draw numbers, as diffusion does: training goes on as if nobody had looked.
            random.restore({0: states}, 0, self._device)
        assert outcome.result is not None
        return {name: self._value(name, sums) for name, sums in outcome.result.items()}

    def _sums(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """For each figure a row of sums and a row of counts, over this process' items."""
        sums: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            for batch, counts in self._mine():
                given = self._applied.prepare(to_device(batch, self._device))
                with self._applied.forward():
                    for name, pair in self._measured(model, given, batch):
                        pair = pair if counts else torch.zeros_like(pair)
                        sums[name] = sums[name] + pair if name in sums else pair
        return sums

    def _measured(
        self, model: nn.Module, given: Batch, batch: Batch
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Every figure's sum and count; the same names for every batch, in every process."""
        count = self._units(batch)
        loss = float(self._loss(model, given).detach()) if count else 0.0
        yield "loss", torch.tensor([loss * count, float(count)], dtype=torch.float64)
        for name, figure in self._figures.items():
            yield name, torch.stack([_wide(one) for one in figure(model, given)])

    def _mine(self) -> Iterator[tuple[Batch, bool]]:
        """This process' items, in order, and whether they count.

        Processes in lockstep all look at all of them. One that is left without an item looks at the
        first: all have to name the same figures when they add them up.
        """
        group = self._group
        first, step = (0, 1) if group.lockstep else (group.rank, group.size)
        mine = range(first, len(self._data), step)
        part = torch.utils.data.Subset(self._data, mine or range(1))
        feed = Feed(part, self.micro_batch, shuffle=False, drop_last=False, collate=self._collate)
        for fed in feed.over():
            yield fed.batch, bool(mine)

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
