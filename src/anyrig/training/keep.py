"""What a run keeps and how it goes on from it: between the loop and `checkpoint`."""

from __future__ import annotations

import contextlib
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from anyrig.errors import InvalidInputError, OutOfMemoryError
from anyrig.training.checkpoint import Checkpoints, Saved, random
from anyrig.training.distributed import restarting
from anyrig.training.feed import Feed, Position
from anyrig.training.loader import Loader
from anyrig.training.loading_plan import Plan, plan
from anyrig.training.nests import cut
from anyrig.training.protocol import Batch, Group, Watch
from anyrig.version import __version__

if TYPE_CHECKING:
    from anyrig.training.assemble import Parts
    from anyrig.training.schedule import Rates
    from anyrig.training.settings import Keeping, Settings

FOLDER = "checkpoints"
_PLANNED = 3
"""Batches that are read to see how long that takes."""


class Restored(NamedTuple):
    """Where a run goes on."""

    step: int
    position: Position
    micro_batch: int | None
    """What fitted; None on another device, or with another number of processes."""
    order: list[Any] | None
    """What `Feed.is_same_order` takes."""
    random: Mapping[int, Mapping[str, Any]]
    """To be put back last: whatever is done before the first step draws numbers of its own."""


def opened(folder: Path | None, keeping: Keeping, group: Group) -> Checkpoints | None:
    """The checkpoints of a run; the first process holds the folder."""
    if folder is None:
        return None
    found = Checkpoints(folder / FOLDER, keeping)
    if group.rank == 0:
        found.hold()
    group.barrier()
    return found


def saved(
    checkpoints: Checkpoints,
    parts: Parts,
    rates: Rates,
    settings: Settings,
    step: int,
    position: Position,
    loss: float | None,
    order: list[Any] | None = None,
    *,
    wait: bool = False,
) -> None:
    """Keep all of a run. Every process takes part, the first one writes."""
    weights = parts.group.weights(parts.whole)
    state = parts.group.optimiser_state(parts.whole, parts.optimiser)
    states = _gathered(random.capture(parts.device), parts.group)
    if parts.group.rank:
        return
    plain: dict[str, Any] = {
        "position": list(position),
        "order": order,
        "applied": parts.applied.state_dict(),
        "rates": rates.state_dict(),
        "micro_batch": parts.step.micro_batch,
        "precision": parts.applied.precision,
        "settings": asdict(settings),
        "processes": parts.group.size,
        "device": parts.placement.device.name,
        "versions": {
            "anyrig": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    checkpoints.save(
        Saved(
            step, epoch=position.epoch, weights=weights, optimizer=state, plain=plain,
            random=states, loss=loss if loss is not None and math.isfinite(loss) else None,
        ),
        wait=wait,
    )  # fmt: skip


def restored(
    checkpoints: Checkpoints, parts: Parts, rates: Rates, settings: Settings, watch: Watch
) -> Restored | None:
    """Put the last checkpoint back; None where there is none."""
    found = checkpoints.load()
    if found is None:
        return None
    kept = found.saved
    for text in found.passed_over:
        watch.event("checkpoint", text)
    try:
        position, micro = Position(*kept.plain["position"]), kept.plain.get("micro_batch")
        applied, paced = kept.plain["applied"], kept.plain["rates"]
        before = kept.plain.get("settings", {})
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{found.path} is not a checkpoint of a run: {error!r} is missing",
            hint="Take another one, or start over in another folder.",
        ) from error
    groups = parts.optimiser.param_groups
    asked = [{name: one[name] for name in _LEARNING if name in one} for one in groups]
    parts.group.load(parts.whole, parts.optimiser, kept.weights, kept.optimiser)
    for one, own in zip(parts.optimiser.param_groups, asked, strict=True):
        one.update(own)  # what is asked for now holds, as it does for the rate
    if parts.masters is not None:
        parts.masters.publish()
    parts.applied.load_state_dict(applied)
    rates.load_state_dict(paced)
    for text in _differences(before, asdict(settings)):
        watch.event("resume", text)
    watch.event("resume", f"continuing from the checkpoint {found.path.name}")
    same = (kept.plain.get("device"), kept.plain.get("processes")) == (
        parts.placement.device.name, parts.group.size,
    )  # fmt: skip
    return Restored(
        kept.step,
        position,
        micro if same and isinstance(micro, int) else None,
        kept.plain.get("order"),
        kept.random,
    )


_SHAPING = ("batch", "seed", "shuffle", "drop_last")
_LEARNING = ("weight_decay", "betas", "momentum")


def _differences(before: Any, now: dict[str, Any]) -> list[str]:
    """What was changed since, where that changes what a resume gives."""
    if not isinstance(before, dict):
        return []
    means = dict.fromkeys(_SHAPING, "the data continues in another order")
    means |= dict.fromkeys(("learning_rate", *_LEARNING), "it holds from here on")
    return [
        f"{name} was {before[name]!r} and is {now[name]!r}: {meaning}"
        for name, meaning in means.items()
        if name in before and before[name] != now[name]
    ]


def _gathered(mine: dict[str, Any], group: Group) -> dict[int, dict[str, Any]]:
    if group.size == 1:
        return {0: mine}
    import torch.distributed as dist

    found: list[Any] = [None] * group.size
    dist.all_gather_object(found, mine)
    return dict(enumerate(found))


def asked_micro_batch(folder: Path | None) -> int | None:
    """What an earlier start that ran out asked for."""
    return restarting.asked_micro_batch(folder) if folder is not None else None


def forget_smaller(folder: Path | None) -> None:
    """What an earlier start asked for holds no more."""
    if folder is not None:
        restarting.forget(folder)


def leave(folder: Path | None, micro_batch: int) -> NoReturn:
    """End this process so that the launcher starts all again with a smaller micro batch."""
    if folder is None:
        raise OutOfMemoryError(
            "out of memory, and a run without a folder cannot be restarted",
            hint="Pass `folder`, or set a smaller micro_batch.",
        )
    restarting.leave(folder, micro_batch)


def first_batch(feed: Feed, group: Group) -> Batch:
    """The first items of the run, as many as a step of one process has. Read here, by no worker."""
    count = -(-feed.batch // group.size)
    if feed.num_items is not None:
        lists = feed.first_lists(1)
        if not lists:
            raise InvalidInputError("the sampler gives no batch", hint="Pass at least one item.")
        with Loader(feed.data, [lists[0][:count]], feed.collate) as loader:
            return cut(next(iter(loader)), 0, count)
    each = 1 if feed.given is not None and feed.given.is_batched else feed.batch
    alone = Feed(feed.data, each, drop_last=False, collate=feed.collate)
    with contextlib.closing(alone), contextlib.closing(alone.over()) as steps:
        fed = next(steps, None)
    if fed is None:
        raise InvalidInputError("there is no item in the data", hint="Pass at least one item.")
    return cut(fed.batch, 0, count)


def loading(feed: Feed, settings: Settings, parts: Parts, step_s: float | None) -> Plan:
    """How the data is read, by measurement."""
    samples: list[list[int]] = []
    if feed.num_items is not None:
        for items in feed.first_lists(_PLANNED):
            samples.append(items[: max(1, len(items) // parts.group.size)])
    return plan(
        feed.data, feed.collate, samples, settings.loading, parts.device.type, step_s,
        batch=feed.batch, num_processes=parts.group.size,
    )  # fmt: skip
