"""`--cluster URL`: the workers of a cluster in the place of this machine's devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import compute
from anyrig.cli.context import Context
from anyrig.errors import InvalidInputError, WorkError

if TYPE_CHECKING:
    from anyrig.cli.speaker import Chosen
    from anyrig.cluster.card import Card, Offer
    from anyrig.devices.machine import Precision
    from anyrig.placement import PlacementPlan
    from anyrig.speech.script import Segment
    from anyrig.speech.synthesise import Tally
    from anyrig.work.engine import EngineFactory
    from anyrig.work.pool import WorkerPool

_NO, _YES = ("", "no", "none", "off"), ("yes", "on")
_FORMATS: dict[str, Precision] = {"half": "fp16", "fp8": "fp8"}
"""A format of each class, to name takes by; fp32 is its own."""
_NAMED = 8
_GPU = 20.0
"""What a GPU counts beside a CPU, where not all workers were measured yet."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The option of a command whose work can be spread over machines."""
    parser.add_argument(
        "--cluster", metavar="URL", default=None,
        help="spread the work over the workers of a broker, such as redis://HOST:6379/0, or the"
        " token that `anyrig coordinator` prints; `yes` takes the broker of the settings, of the"
        " environment or of this machine's own coordinator, `no` none",
    )  # fmt: skip


def url_of(context: Context) -> str:
    """The broker to whose workers this command goes; empty for none."""
    if not hasattr(context.options, "cluster"):
        return ""
    asked = context.options.cluster
    if asked is None:
        asked = "yes" if context.loaded.settings.cluster.spread else "no"
    word = asked.strip().lower()
    if word in _NO:
        return ""
    from anyrig.cli.cluster_link import broker_of, needs_celery

    needs_celery()
    return broker_of(context, None) if word in _YES else str(asked)


def check_queued(context: Context) -> None:
    """A job's arguments are shown to many: a broker's password must not be among them."""
    from anyrig.cluster import token

    asked = str(getattr(context.options, "cluster", None) or "")
    if token.is_token(asked) or "@" in asked:
        raise InvalidInputError(
            "the address of a queued job's cluster would show its password to whoever lists jobs",
            hint="Set cluster.broker, and queue with --cluster yes.",
        )
    url_of(context)  # what it needs is said now, not when the job runs


def placed(context: Context, chosen: Chosen) -> PlacementPlan:
    """Nothing is computed here: a placement that only says in what precision takes are made."""
    from anyrig.cli.cluster_link import linked
    from anyrig.cluster.card import Roll
    from anyrig.devices.machine import DeviceBackend
    from anyrig.placement import Placement, PlacementPlan

    link = linked(context, url_of(context))
    try:
        cards = list(Roll(link).living().values())
    finally:
        link.close()
    offer = _offer(context, chosen)
    _check_offers(chosen, offer, cards)
    kind = precision_of(compute.wanted(context).precision, offer, cards)
    context.log_reasons(f"the cluster speaks in {kind}", _told(offer, cards))
    cpu = context.machine.cpu_device
    backend = cpu.backends[0] if cpu.backends else DeviceBackend("onnx", "cpu", "cpu")
    return PlacementPlan((Placement(cpu, backend, _FORMATS.get(kind, "fp32")),))


def hired(
    context: Context, chosen: Chosen, placed: PlacementPlan, *, lane: str = "bulk"
) -> Callable[[EngineFactory], WorkerPool] | None:
    """Makes a crew of the cluster's workers, where one was named."""
    url = url_of(context)
    if not url:
        return None
    from anyrig.cluster.fleet import Fleet
    from anyrig.cluster.link import Link
    from anyrig.cluster.review import Review
    from anyrig.speech.protocol import options_of
    from anyrig.speech.stage import precision_class

    offer = _offer(context, chosen)

    def hire(recipe: EngineFactory) -> WorkerPool:
        local = _local(context, chosen, placed, recipe)
        return Fleet(
            Link(url), offer, precision=precision_class(placed.placements),
            options=options_of(chosen.spec, chosen.options), lane=lane,
            patience_s=context.loaded.settings.cluster.patience,
            review=Review(local, hold=lane != "live"),
        )  # fmt: skip

    return hire


def _local(
    context: Context, chosen: Chosen, placed: PlacementPlan, recipe: EngineFactory
) -> Callable[[], WorkerPool] | None:
    """Starts the engine here, to compare takes with; None where two takes of a line may differ."""
    from anyrig.work.pool import WorkerPool
    from anyrig.work.worker import LocalWorkers

    if not getattr(chosen.kind, "batch_invariant", False):
        return None
    if placed.placements[0].precision != "fp32":
        return None
    return lambda: WorkerPool(
        LocalWorkers(placed.placements, recipe, environment=context.environment)
    )


def made_by(context: Context, tally: Tally) -> str:
    """Which workers made how many segments; empty without a cluster."""
    if not url_of(context) or not tally.devices:
        return ""
    counts = sorted(tally.devices.items(), key=lambda pair: (-pair[1], pair[0]))
    some = [f"{name} {count}" for name, count in counts[:_NAMED]]
    more = [f"{len(counts) - _NAMED} more"] if len(counts) > _NAMED else []
    return f"made by {', '.join((*some, *more))}"


def check_voices(context: Context, segments: Iterable[Segment]) -> None:
    """That no segment wants the voice of a recording that lies on this machine alone."""
    if not url_of(context):
        return
    voices = dict.fromkeys(segment.line.voice for segment in segments if segment.line.voice)
    for voice in voices:
        if Path(voice).is_file():
            raise WorkError(
                f"{voice} is a recording of this machine, which the cluster's workers do not have",
                hint="Leave --cluster out, or choose a voice that comes with its engine.",
            )


def precision_of(asked: str, offer: Offer, cards: Sequence[Card]) -> str:
    """The class of number format for a run: as asked for, else what most of the speed prefers.

    Args:
        asked: a format by name, or `auto`.
        offer: the engine; workers that have another are not counted.
        cards: the workers.
    """
    from anyrig.precision.choose import resolve_precision

    named = resolve_precision(asked)
    if named is not None:
        return "half" if named in ("fp16", "bf16") else named.replace("tf32", "fp32")
    fit = [card for card in cards if card.offer(offer.engine) == offer]
    measured = all(card.speeds.get(offer.engine) for card in fit)
    votes: dict[str, float] = {}
    for card in fit:
        first = next(iter(card.precisions.get(offer.engine, ())), "fp32")
        guess = _GPU if card.kind == "gpu" else 1.0
        votes[first] = votes.get(first, 0.0) + (card.speeds[offer.engine] if measured else guess)
    return max(sorted(votes), key=lambda one: votes[one]) if votes else "fp32"


def _offer(context: Context, chosen: Chosen) -> Offer:
    """The engine as it lies here: a worker looks at its own without options, too."""
    from anyrig.cli.speaker import found
    from anyrig.cluster.card import offer_of

    return offer_of(found(context, chosen.name, chosen.kind))


def _check_offers(chosen: Chosen, offer: Offer, cards: Sequence[Card]) -> None:
    """Recordings that became voices of an engine are there on this machine alone, as a rule."""
    own = [voice.name for voice in chosen.found.voices if voice.digest]
    theirs = [there for card in cards if (there := card.offer(offer.engine)) is not None]
    if own and theirs and offer not in theirs and any(_but_voices(offer, one) for one in theirs):
        raise WorkError(
            f"{chosen.name} has voices here that are made of recordings ({', '.join(own[:3])}), "
            "and the cluster's workers do not have the same",
            hint=f"Leave --cluster out, or copy the voices of {chosen.name} to the workers.",
        )


def _but_voices(mine: Offer, theirs: Offer) -> bool:
    return (mine.version, mine.fingerprint) == (theirs.version, theirs.fingerprint)


def _told(offer: Offer, cards: Sequence[Card]) -> list[str]:
    """Who could work, for the log."""
    found = []
    for card in cards:
        theirs = card.offer(offer.engine)
        why = offer.differs(theirs) if theirs is not None else f"it has no {offer.engine}"
        classes = ", ".join(card.precisions.get(offer.engine, ()))
        found.append(f"{card.name} ({card.device}): {why or classes or 'fp32'}")
    return found
