"""Speech on the workers of a cluster, in the place of this machine's devices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.engines import EngineChoice, find_weights
from anyrig.errors import InvalidInputError, MissingPackageError, WorkError, mention
from anyrig.install import format_install
from anyrig.options import Request, option

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.app.speech import SynthesisOptions
    from anyrig.cluster.card import Card, Offer
    from anyrig.cluster.link import Link
    from anyrig.devices.machine import Precision
    from anyrig.placement import PlacementPlan
    from anyrig.speech.script import Segment
    from anyrig.work.engine import EngineFactory
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
_NO, _YES = ("no", "none", "off"), ("yes", "on")
_EXAMPLES: dict[str, Precision] = {"half": "fp16", "fp8": "fp8"}
"""A number format of each precision class; fp32 is its own."""
_GPU_WEIGHT = 20.0
"""What a GPU counts beside a CPU while not all workers were measured."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Request):
    """The cluster."""

    cluster: str = option(
        "", "run on the workers of a broker, such as redis://HOST:6379/0, or of the token that"
        " `anyrig coordinator` prints; `yes` uses the broker of the settings, the environment or"
        " this machine's own coordinator, `no` none", metavar="URL", http=False,
    )  # fmt: skip


def find_broker(rig: Rig, options: ClusterOptions) -> str:
    """The broker whose workers do the work; empty for this machine's devices."""
    word = options.cluster.strip() or ("yes" if rig.settings.cluster.spread else "no")
    if word.lower() in _NO:
        return ""
    check_celery()
    return find_default_broker(rig) if word.lower() in _YES else word


def find_default_broker(rig: Rig) -> str:
    """The broker of the environment, the settings, or this machine's own coordinator."""
    from anyrig.cluster import app, broker

    for name in (*app.BROKER_VARIABLES, "COORDINATOR_IP"):
        if rig.environment.get(name):
            return app.named(rig.environment)
    if rig.settings.cluster.broker:
        return rig.settings.cluster.broker
    path = rig.folders.coordinator
    return (broker.kept(path).broker if path.exists() else "") or app.named(rig.environment)


def connect(rig: Rig, url: str = "") -> Link:
    """Connect to a broker that answers; warns if others can reach it."""
    from anyrig.cluster.link import Link
    from anyrig.cluster.status import exposed

    check_celery()
    link = Link(url or find_default_broker(rig))
    link.check()
    for warning in exposed(link):
        rig.warn(warning)
    return link


def check_celery() -> None:
    if find_spec("celery") is None or find_spec("redis") is None:
        raise MissingPackageError(
            "a cluster needs celery and redis, which are not installed",
            hint=format_install("anyrig[cluster]"),
        )


def check_queued(rig: Rig, options: ClusterOptions) -> None:
    """Refuse a broker's password in a job, which others can list."""
    from anyrig.cluster import token

    if token.is_token(options.cluster) or "@" in options.cluster:
        raise InvalidInputError(
            "a queued job would show the broker's password to everyone who can list jobs",
            hint=f"Set cluster.broker and pass {mention('cluster', 'yes')}.",
        )
    find_broker(rig, options)  # what is missing is reported now, not when the job runs


def place_on_cluster(rig: Rig, request: SynthesisOptions, choice: EngineChoice) -> PlacementPlan:
    """A placement that only says in which precision takes are made: nothing runs here."""
    from anyrig.cluster.card import Roll
    from anyrig.devices.machine import DeviceBackend
    from anyrig.placement import Placement, PlacementPlan

    link = connect(rig, find_broker(rig, request))
    try:
        workers = list(Roll(link).living().values())
    finally:
        link.close()
    offer = _describe_engine(rig, request, choice)
    _check_voices_match(choice, offer, workers)
    precision = choose_cluster_precision(request.precision, offer, workers)
    log.info("the cluster speaks in %s", precision)
    for worker in workers:
        theirs = worker.offer(offer.engine)
        why = offer.differs(theirs) if theirs is not None else f"it has no {offer.engine}"
        classes = ", ".join(worker.precisions.get(offer.engine, ())) or "fp32"
        log.info("  %s (%s): %s", worker.name, worker.device, why or classes)
    cpu = rig.machine.cpu_device
    backend = cpu.backends[0] if cpu.backends else DeviceBackend("onnx", "cpu", "cpu")
    return PlacementPlan((Placement(cpu, backend, _EXAMPLES.get(precision, "fp32")),))


def open_cluster_pool(
    rig: Rig,
    request: SynthesisOptions,
    choice: EngineChoice,
    plan: PlacementPlan,
    *,
    lane: str = "bulk",
) -> Callable[[EngineFactory], WorkerPool] | None:
    """Makes a pool of the cluster's workers, if the request names one."""
    url = find_broker(rig, request)
    if not url:
        return None
    from anyrig.cluster.fleet import Fleet
    from anyrig.cluster.link import Link
    from anyrig.cluster.review import Review
    from anyrig.speech.protocol import options_of
    from anyrig.speech.stage import precision_class
    from anyrig.work.pool import WorkerPool
    from anyrig.work.worker import LocalWorkers

    offer = _describe_engine(rig, request, choice)

    def open_pool(factory: EngineFactory) -> WorkerPool:
        def open_local() -> WorkerPool:
            local = LocalWorkers(plan.placements, factory, environment=rig.environment)
            return WorkerPool(local)

        # Takes can be compared with our own only where two takes of a line are the same.
        comparable = getattr(choice.engine_class, "batch_invariant", False)
        comparable = comparable and plan.placements[0].precision == "fp32"
        return Fleet(
            Link(url), offer, precision=precision_class(plan.placements),
            options=options_of(choice.spec, choice.options), lane=lane,
            patience_s=rig.settings.cluster.patience,
            review=Review(open_local if comparable else None, hold=lane != "live"),
        )  # fmt: skip

    return open_pool


def check_no_recordings(rig: Rig, options: ClusterOptions, segments: Iterable[Segment]) -> None:
    """Refuse voices cloned from recordings that only this machine has."""
    if not find_broker(rig, options):
        return
    for voice in dict.fromkeys(segment.line.voice for segment in segments if segment.line.voice):
        if Path(voice).is_file():
            raise WorkError(
                f"{voice} is a file on this machine, which the cluster's workers do not have",
                hint=f"Leave {mention('cluster')} out, or choose a voice of the engine.",
            )


def choose_cluster_precision(requested: str, offer: Offer, workers: Sequence[Card]) -> str:
    """The precision class of a run: as requested, else what most of the speed prefers.

    Args:
        requested: a format by name, or `auto`.
        offer: the engine; workers that have another are not counted.
        workers: of the cluster.
    """
    from anyrig.precision.choose import resolve_precision

    named = resolve_precision(requested)
    if named is not None:
        return "half" if named in ("fp16", "bf16") else named.replace("tf32", "fp32")
    fit = [worker for worker in workers if worker.offer(offer.engine) == offer]
    measured = all(worker.speeds.get(offer.engine) for worker in fit)
    votes: dict[str, float] = {}
    for worker in fit:
        first = next(iter(worker.precisions.get(offer.engine, ())), "fp32")
        guess = _GPU_WEIGHT if worker.kind == "gpu" else 1.0
        speed = worker.speeds[offer.engine] if measured else guess
        votes[first] = votes.get(first, 0.0) + speed
    return max(sorted(votes), key=lambda one: votes[one]) if votes else "fp32"


def _describe_engine(rig: Rig, request: SynthesisOptions, choice: EngineChoice) -> Offer:
    """The engine as it is installed here, without the request's own options, as workers look."""
    from anyrig.cluster.card import offer_of

    return offer_of(find_weights(rig, request, choice.name, choice.engine_class))


def _check_voices_match(choice: EngineChoice, offer: Offer, workers: Sequence[Card]) -> None:
    """Voices that were added to an engine from recordings usually exist on this machine alone."""
    own = [voice.name for voice in choice.found.voices if voice.digest]
    theirs = [there for worker in workers if (there := worker.offer(offer.engine)) is not None]
    only_voices_differ = any(
        (offer.version, offer.fingerprint) == (one.version, one.fingerprint) for one in theirs
    )
    if own and theirs and offer not in theirs and only_voices_differ:
        raise WorkError(
            f"{choice.name} has voices on this machine ({', '.join(own[:3])}) that the cluster's"
            " workers do not have",
            hint=f"Leave {mention('cluster')} out, or copy the voices to the workers.",
        )
