"""A model measured on data that it is not trained on: one forward pass for loss and metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from anyrig.errors import InvalidInputError, OutOfMemoryError
from anyrig.memory.recovery import ReleasableDevice, run_with_recovery
from anyrig.training import rng
from anyrig.training.batch import Batch, count_items, slice_batch, slice_length, to_device
from anyrig.training.data import Collate, LoaderOptions, TensorRows, return_batch
from anyrig.training.distributed.launch import gather
from anyrig.training.losses import (
    CountUnits,
    Loss,
    LossOutput,
    call_model,
    is_criterion,
    split_batch,
)
from anyrig.training.step import RestartNeeded, divide

if TYPE_CHECKING:
    from anyrig.precision.policy import PrecisionPolicy
    from anyrig.training.distributed.group import Group

Metric: TypeAlias = Any
"""One of:

- a torchmetrics object (`update`, `compute`, `reset`), which gets outputs and targets;
- a function of outputs and targets, whose mean over items counts; it returns a number, or one for
  each item;
- a function of the model and a batch that returns a sum and a count, which are added up over
  batches and processes before they are divided. Vectors of both are a mean of ratios, of those
  whose count is not zero: macro F1 is one, with a place for each class. An attribute `after` is
  applied to the mean, as in perplexity; with `of_loss` it is not called: the loss' own sum and
  count are used.

The model does not run again for a metric: its outputs of a batch are remembered.
"""


class Evaluator:
    """Measures a model.

    Args:
        data: a data set with `len` and `[number]`, a DataLoader, or an iterable of ready batches.
        loss: the mean over a batch's units.
        batch: items that a loss across its batch (`whole_batch`) gets at once.
        micro_batch: items at once for others; halved when memory runs out.
        policy: the precision.
        device: where the model is.
        group: whose processes share the items.
        units: how many units a batch has; its items, or what the loss says, when None.
        metrics: by name.
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
        policy: PrecisionPolicy,
        device: torch.device,
        group: Group,
        units: CountUnits | None = None,
        metrics: Mapping[str, Metric] | None = None,
        collate: Collate | None = None,
        handle: ReleasableDevice | None = None,
    ) -> None:
        check_validation_data(data)
        self._data, self._loss, self._units = data, loss, units
        self._batch, self.micro_batch = batch, micro_batch
        self._policy, self._device, self._group = policy, device, group
        self._metrics = {name: _wrap_metric(one, device) for name, one in (metrics or {}).items()}
        self._collate, self._handle = collate, handle
        self._whole = bool(getattr(loss, "whole_batch", False))

    def __call__(self, model: nn.Module) -> dict[str, float]:
        """Every metric over all items, `loss` first.

        Modes of the modules and random states are afterwards what they were.
        """
        modes = {module: module.training for module in model.modules()}
        states = rng.capture(self._device)
        self._group.broadcast_buffers(model)
        model.eval()
        try:
            return self._measure(model)
        finally:
            for module, training in modes.items():
                module.training = training
            # A loss may draw numbers, as diffusion does: training goes on as if nobody had looked.
            rng.restore({0: states}, 0, self._device)

    def _measure(self, model: nn.Module) -> dict[str, float]:
        totals = {name: _Totals() for name in ("loss", *self._metrics)}
        for metric in self._metrics.values():
            metric.reset()
        has_batches = False
        with torch.no_grad(), contextlib.closing(self._batches()) as batches:
            for batch, counts in batches:
                has_batches = True
                found, given = self._measure_batch(model, batch)
                for name, sums in found.items():
                    totals[name].add(sums if counts else sums.without_count())
                self._update_objects(given if counts else [])
        if not has_batches:
            raise InvalidInputError(
                "the validation data has no batch",
                hint="A DataLoader with drop_last leaves out a batch that is not full.",
            )
        return {name: self._compute(name, one) for name, one in totals.items()}

    def _update_objects(self, given: list[tuple[Any, Any]]) -> None:
        """Give outputs and targets of a batch to metric objects; to those that add up nothing over
        processes themselves the other processes' too.
        """
        objects = [one for one in self._metrics.values() if isinstance(one, _MetricObject)]
        everywhere = given
        if self._group.size > 1 and not all(one.adds_up for one in objects):
            rows = gather(to_device(given, "cpu"), self._group.size)
            everywhere = [to_device(pair, self._device) for row in rows for pair in row]
        for one in objects:
            for outputs, targets in given if one.adds_up else everywhere:
                one.update(outputs, targets)

    def _measure_batch(
        self, model: nn.Module, batch: Batch
    ) -> tuple[dict[str, _Sums], list[tuple[Any, Any]]]:
        """Loss and metrics of a batch, and what metric objects get of it; in smaller parts where
        memory runs out.
        """
        size = slice_length(batch)
        while True:
            step = size if self._whole or not size else min(self.micro_batch, size)
            states = rng.capture(self._device)
            outcome = run_with_recovery(
                lambda step=step: self._run(model, batch, size, step),  # type: ignore[misc]
                self._handle,
            )
            if outcome.result is not None:
                return outcome.result
            if self._group.lockstep:
                # The others wait inside the model: nothing can be agreed on any more.
                raise RestartNeeded(max(1, self.micro_batch // 2))
            if not step or step == 1 or self._whole:
                raise OutOfMemoryError(
                    f"{'a single item' if step == 1 else 'a batch'} does not fit in memory while "
                    "the model is measured",
                    hint="Use shorter items for validation, a DataLoader with a smaller "
                    "batch_size, or a smaller model.",
                )
            self.micro_batch = max(1, step // 2)
            rng.restore({0: states}, 0, self._device)

    def _run(
        self, model: nn.Module, batch: Batch, size: int | None, step: int | None
    ) -> tuple[dict[str, _Sums], list[tuple[Any, Any]]]:
        found: dict[str, _Sums] = {}
        given_to_objects: list[tuple[Any, Any]] = []
        has_objects = any(isinstance(one, _MetricObject) for one in self._metrics.values())
        for start, stop in divide(size, step) if size and step else ((0, 0),):
            part = slice_batch(batch, start, stop) if size else batch
            given = self._policy.cast_inputs(to_device(part, self._device))
            remembering = cast("nn.Module", OutputCache(model))
            with self._policy.autocast():
                result = self._loss(remembering, given)
                output = result if isinstance(result, LossOutput) else LossOutput(result)
                count = self._count(part, output)
                loss = output.loss.detach().double() if count else torch.zeros(())
                sums = {"loss": _Sums(loss.cpu() * count, torch.tensor(float(count)))}
                for name, metric in self._metrics.items():
                    if isinstance(metric, _MetricFunction):
                        sums[name] = metric(remembering, given, output, sums["loss"])
                if has_objects:
                    given_to_objects.append(_outputs_and_targets(remembering, given, output))
            for name, one in sums.items():
                found[name] = found[name].plus(one) if name in found else one
        return found, given_to_objects

    def _count(self, batch: Batch, output: LossOutput) -> int:
        if self._units is not None:
            return self._units(batch)
        return count_items(batch) if output.num_units is None else output.num_units

    def _compute(self, name: str, totals: _Totals) -> float:
        metric = self._metrics.get(name)
        if isinstance(metric, _MetricObject):
            return metric.compute()
        row = totals.value(self._group)
        after = getattr(metric, "after", None)
        return float(after(row)) if after is not None else row

    # -- reading -----------------------------------------------------------------------------------

    def _batches(self) -> Generator[tuple[Batch, bool], None, None]:
        """This process' batches, and whether they count.

        A process that is left without one gets one that does not count: all have to name the same
        metrics when they add them up, and with fsdp all have to run as often.
        """
        group, data = self._group, self._data
        if isinstance(data, DataLoader) or not hasattr(data, "__getitem__"):
            yield from self._take_turns(iter(data))
            return
        size = min(self._batch, len(data)) if self._whole else self.micro_batch
        starts = range(0, len(data), size)
        mine = [
            list(range(start, min(start + size, len(data))))
            for start in starts[group.rank :: group.size]
        ]
        rounds = -(-len(starts) // group.size)
        fill = [[0]] * (rounds - len(mine))
        rows = TensorRows.wrap(data) if self._collate is None else None
        loader = LoaderOptions().build(
            rows or data, seed=0, batch_sampler=[*mine, *fill],
            collate_fn=return_batch if rows else self._collate,
        )  # fmt: skip
        for number, batch in enumerate(loader):
            yield batch, number < len(mine)

    def _take_turns(self, batches: Iterator[Batch]) -> Iterator[tuple[Batch, bool]]:
        """Ready batches in turn to the processes; every process reads all of them."""
        group = self._group
        first: Batch = None
        number = -1
        for number, batch in enumerate(batches):
            first = batch if number == 0 else first
            if number % group.size == group.rank:
                yield batch, True
        if group.rank > number % group.size and number >= 0:
            yield first, False


class _Sums(NamedTuple):
    """A metric of some items as a sum and a count, on the host in fp64."""

    total: torch.Tensor
    weight: torch.Tensor

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(self.total + other.total, self.weight + other.weight)

    def without_count(self) -> _Sums:
        return _Sums(torch.zeros_like(self.total), torch.zeros_like(self.weight))


class _Totals:
    def __init__(self) -> None:
        self._sums: _Sums | None = None

    def add(self, sums: _Sums) -> None:
        self._sums = sums if self._sums is None else self._sums.plus(sums)

    def value(self, group: Group) -> float:
        """The mean over all processes; of vectors, the mean of those that were counted."""
        if self._sums is None:
            return 0.0
        total, count = (one.double() for one in self._sums)
        both = group.sum(torch.stack([total, count]))
        top, bottom = both[0].flatten(), both[1].flatten()
        counted = bottom != 0
        return float((top[counted] / bottom[counted]).mean()) if bool(counted.any()) else 0.0


def check_validation_data(data: Any) -> None:
    """Refuse now what would fail after the first epoch."""
    if isinstance(data, Iterator):
        raise InvalidInputError(
            "an iterator cannot be used as validation data: it can be read only once",
            hint="Pass a list, a data set, a DataLoader, or an iterable of batches.",
        )
    base = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(base, IterableDataset) and not isinstance(data, DataLoader):
        raise InvalidInputError(
            f"a {type(base).__name__} cannot be used as validation data by itself",
            hint="Pass a DataLoader of it, or a data set with len() and [number].",
        )
    if hasattr(base, "__len__") and not len(base):
        raise InvalidInputError(
            "the validation data is empty", hint="Pass some items, or leave it out."
        )


class OutputCache:
    """A model whose outputs of a batch are remembered: what loss and metrics ask of it twice is
    computed once. Whatever else is asked of it, the model answers.
    """

    def __init__(self, model: nn.Module) -> None:
        self.__dict__.update(_model=model, _known={})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        known: dict[Any, tuple[Any, Any]] = self.__dict__["_known"]
        key = (tuple(map(id, args)), tuple((name, id(one)) for name, one in kwargs.items()))
        if key not in known:
            # The arguments are held: nothing else may come to have their identity.
            known[key] = (args, kwargs), self.__dict__["_model"](*args, **kwargs)
        return known[key][1]

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """A loss may ask what kind of model it has."""
        return type(self.__dict__["_model"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_model"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_model"], name, value)


def _outputs_and_targets(model: nn.Module, batch: Batch, output: LossOutput) -> tuple[Any, Any]:
    inputs, targets = split_batch(batch)
    outputs = call_model(model, inputs) if output.outputs is None else output.outputs
    return getattr(outputs, "logits", outputs), targets


class _MetricObject:
    """A torchmetrics object, or one with its methods."""

    def __init__(self, metric: Any, device: torch.device) -> None:
        self._metric = metric.to(device) if hasattr(metric, "to") else metric
        self.adds_up = callable(getattr(metric, "sync_context", None))
        """Whether `compute` is over all processes, as torchmetrics' is."""

    def reset(self) -> None:
        self._metric.reset()

    def update(self, outputs: Any, targets: Any) -> None:
        self._metric.update(outputs, targets)

    def compute(self) -> float:
        found = self._metric.compute()
        try:
            return float(found)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidInputError(
                f"a {type(self._metric).__name__} returns more than a number",
                hint="Have it average, or pass the metrics of a collection by name.",
            ) from error


class _MetricFunction:
    """A function of outputs and targets, or of the model and a batch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.after = getattr(function, "after", None)
        self._of_loss = bool(getattr(function, "of_loss", False))
        self._takes_model = self._of_loss or not is_criterion(function)

    def reset(self) -> None:
        """There is no state."""

    def __call__(self, model: nn.Module, batch: Batch, output: LossOutput, loss: _Sums) -> _Sums:
        if self._of_loss:
            return loss
        if self._takes_model:
            try:
                found = self._function(model, batch)
            except (AttributeError, TypeError) as error:
                raise InvalidInputError(
                    f"a metric failed when it was called with the model and a batch: {error}",
                    hint="One of outputs and targets has parameters of these names.",
                ) from error
        else:
            found = self._function(*_outputs_and_targets(model, batch, output))
        if isinstance(found, tuple):
            return _Sums(*(_to_host(one) for one in found))
        count = float(count_items(batch))
        return _Sums(_to_host(found).mean() * count, torch.tensor(count))


def _wrap_metric(metric: Metric, device: torch.device) -> _MetricObject | _MetricFunction:
    if all(callable(getattr(metric, name, None)) for name in ("update", "compute", "reset")):
        return _MetricObject(metric, device)
    return _MetricFunction(metric)


def _to_host(value: float | torch.Tensor) -> torch.Tensor:
    """In fp64 on the host; there first, as not every device has fp64."""
    host = value.detach().cpu() if isinstance(value, torch.Tensor) else value
    return torch.as_tensor(host, dtype=torch.float64)
