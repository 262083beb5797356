"""Clusters: their workers in the place of this machine's devices, and who is in one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.engines import find_weights
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    MissingPackageError,
    OptionRef,
    WorkError,
)
from anyrig.install import format_install
from anyrig.options import Request, option
from anyrig.speech.choose import EngineChoice

if TYPE_CHECKING:
    from anyrig.app.compute import ComputeOptions
    from anyrig.app.rig import Rig
    from anyrig.app.speech import SynthesisOptions
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.protocol import Codec
    from anyrig.cluster.registry import ClusterStatus, EngineId, WorkerInfo
    from anyrig.devices.machine import Precision
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.protocol import LongTexts
    from anyrig.placement import PlacementPlan, Workload
    from anyrig.speech.segment import Segment
    from anyrig.work.engine import EngineFactory
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
OpenPool = Callable[["EngineFactory"], "WorkerPool"]
_NO, _YES = ("no", "none", "off"), ("yes", "on")
_EXAMPLES: dict[str, Precision] = {"half": "fp16"}
"""A precision of each precision class; fp32 is its own."""
_GPU_WEIGHT = 20.0
"""What a GPU counts beside a CPU while not all workers were measured."""
_POLL_S, _EXPOSURE_S = 2.0, 300.0
_IDLE_POLL_S = 0.5


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Request):
    """The cluster."""

    cluster: str = option(
        "", "use the workers of this broker: an address such as redis://HOST:6379/0, a token, `yes`"
        " for the configured broker or this machine's coordinator, or `no`", metavar="URL",
        http=False,
    )  # fmt: skip
    cluster_local: bool = option(
        False, "with a cluster: also use this machine's devices", http=False
    )


def find_broker(rig: Rig, options: ClusterOptions) -> str:
    """The broker whose workers do the work; empty for this machine's devices."""
    word = options.cluster.strip() or ("yes" if rig.settings.cluster.spread else "no")
    if word.lower() in _NO:
        if options.cluster_local:
            raise InvalidInputError(
                Message(
                    "{cluster_local} needs a cluster", cluster_local=OptionRef("cluster_local")
                ),
                hint=Message(
                    "Pass {cluster} too, or leave {cluster_local} out.",
                    cluster=OptionRef("cluster"),
                    cluster_local=OptionRef("cluster_local"),
                ),
            )
        return ""
    check_celery()
    return find_default_broker(rig) if word.lower() in _YES else word


def find_default_broker(rig: Rig) -> str:
    """The broker of the environment, the settings, or this machine's own coordinator."""
    from anyrig.cluster.broker import VARIABLES, find_url
    from anyrig.cluster.coordinator import load_state

    if any(rig.environment.get(name) for name in VARIABLES):
        return find_url(rig.environment)
    if rig.settings.cluster.broker:
        return rig.settings.cluster.broker
    path = rig.folders.coordinator
    return (load_state(path).broker if path.exists() else "") or find_url(rig.environment)


def connect(rig: Rig, url: str = "") -> BrokerClient:
    """Connect to a broker that responds; warns if strangers can reach it."""
    from anyrig.cluster.broker import BrokerClient, find_exposures

    check_celery()
    client = BrokerClient(url or find_default_broker(rig))
    client.check()
    for warning in find_exposures(client):
        rig.warn(warning)
    return client


def check_celery() -> None:
    if find_spec("celery") is None or find_spec("redis") is None:
        raise MissingPackageError(
            "a cluster needs celery and redis, which are not installed",
            hint=format_install("anyrig[cluster]"),
        )


# -- work on the workers of a cluster --------------------------------------------------------------


def place_on_cluster(rig: Rig, request: SynthesisOptions, choice: EngineChoice) -> PlacementPlan:
    """A placement that only says in which precision takes are made: nothing runs here."""
    engine, workers = _identify_engine(rig, request, choice), _list_workers(rig, request)
    _check_voices_match(choice, engine, workers)
    return _plan_precision(rig, request.precision, engine, workers)


def open_cluster_pool(
    rig: Rig,
    request: SynthesisOptions,
    choice: EngineChoice,
    plan: PlacementPlan,
    *,
    lane: str = "bulk",
) -> OpenPool | None:
    """Makes a pool of the cluster's workers, if the request names one."""
    if not find_broker(rig, request):
        return None
    from anyrig.cluster.speech import SpeechCodec
    from anyrig.speech.engine import resolve_options

    codec = SpeechCodec(repetition=choice.info.varies_with_seed)
    return _make_opener(
        rig, request, request, _identify_engine(rig, request, choice), codec, plan,
        workload=choice.engine_class.need(choice.weights),
        options=resolve_options(choice.info, choice.options), lane=lane,
    )  # fmt: skip


def open_embedding_pool(
    rig: Rig,
    compute: ComputeOptions,
    cluster: ClusterOptions,
    model: EmbeddingModel,
    *,
    long: LongTexts,
    deterministic: bool,
) -> tuple[PlacementPlan, OpenPool]:
    """A placement that says in which precision vectors are made, and what makes the pool."""
    from anyrig.cluster.embedding import EmbeddingCodec, identify_model

    engine, workload = identify_model(model), model.need()
    workers = _list_workers(rig, cluster)
    plan = _plan_precision(rig, compute.precision, engine, workers, workload.libraries)

    return plan, _make_opener(
        rig, compute, cluster, engine, EmbeddingCodec(model.dimension), plan, workload=workload,
        options={"deterministic": deterministic, "long": long},
    )  # fmt: skip


def _list_workers(rig: Rig, options: ClusterOptions) -> list[WorkerInfo]:
    from anyrig.cluster.registry import WorkerRegistry

    client = connect(rig, find_broker(rig, options))
    try:
        return list(WorkerRegistry(client).list_alive().values())
    finally:
        client.close()


def _plan_precision(
    rig: Rig,
    requested: str,
    engine: EngineId,
    workers: Sequence[WorkerInfo],
    libraries: Sequence[str] = (),
) -> PlacementPlan:
    """A placement in the precision class of a run; it computes what is compared, at most."""
    from anyrig.cluster.registry import find_mismatch
    from anyrig.devices.machine import DeviceBackend
    from anyrig.placement import Placement, PlacementPlan

    precision = choose_cluster_precision(requested, engine, workers)
    log.info("the cluster computes in %s", precision)
    for worker in workers:
        reason = find_mismatch(engine, precision, worker.engines, worker.precisions)
        log.info("  %s (%s): %s", worker.name, worker.device, reason or "can be used")
    cpu = rig.machine.cpu_device
    able = [one for one in cpu.backends if not libraries or one.library in libraries]
    backend = able[0] if able else DeviceBackend("onnx", "cpu", "cpu")
    return PlacementPlan((Placement(cpu, backend, _EXAMPLES.get(precision, "fp32")),))


def _make_opener(
    rig: Rig,
    compute: ComputeOptions,
    cluster: ClusterOptions,
    engine: EngineId,
    codec: Codec,
    plan: PlacementPlan,
    *,
    workload: Workload,
    options: Mapping[str, Any],
    lane: str = "bulk",
) -> OpenPool:
    from anyrig.app.compute import place, test_devices
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.pool import ClusterPool
    from anyrig.speech.takes import precision_class
    from anyrig.work.worker import LocalWorkers

    url, precision = find_broker(rig, cluster), plan.placements[0].precision
    local: PlacementPlan | None = None
    if cluster.cluster_local:
        own = replace(compute, precision=precision)
        local = test_devices(rig, place(rig, rig.choose_device(own), workload, own), own)

    def open_pool(factory: EngineFactory) -> WorkerPool:
        own = local.placements if local is not None else ()
        return ClusterPool(
            BrokerClient(url), engine, codec, precision=precision_class(plan.placements),
            options=options, lane=lane, wait_s=rig.settings.cluster.patience,
            local=[LocalWorkers(own, factory, environment=rig.environment)] if own else [],
        )  # fmt: skip

    return open_pool


def check_no_recordings(rig: Rig, options: ClusterOptions, segments: Iterable[Segment]) -> None:
    """Refuse voices cloned from recordings that only this machine has."""
    from anyrig.speech.voices import is_recording

    if not find_broker(rig, options):
        return
    for voice in dict.fromkeys(
        segment.utterance.voice for segment in segments if segment.utterance.voice
    ):
        if is_recording(voice) and Path(voice).is_file():
            raise WorkError(
                f"{voice} is a file on this machine, which the cluster's workers do not have",
                hint=Message(
                    "Leave {cluster} out, or choose a voice of the engine.",
                    cluster=OptionRef("cluster"),
                ),
            )


def choose_cluster_precision(
    requested: str, engine: EngineId, workers: Sequence[WorkerInfo]
) -> str:
    """The precision class of a run: as requested, else what most of the speed prefers.

    Args:
        requested: a format by name, or `auto`.
        engine: workers that have another are not counted.
        workers: of the cluster.
    """
    from anyrig.precision.choose import resolve_precision

    named = resolve_precision(requested)
    if named is not None:
        return "half" if named in ("fp16", "bf16") else named.replace("tf32", "fp32")
    fit = [worker for worker in workers if worker.find_engine(engine.engine) == engine]
    measured = all(worker.speeds.get(engine.engine) for worker in fit)
    votes: dict[str, float] = {}
    for worker in fit:
        first = next(iter(worker.precisions.get(engine.engine, ())), "fp32")
        guess = _GPU_WEIGHT if worker.kind == "gpu" else 1.0
        speed = worker.speeds[engine.engine] if measured else guess
        votes[first] = votes.get(first, 0.0) + speed
    return max(sorted(votes), key=lambda one: votes[one]) if votes else "fp32"


def _identify_engine(rig: Rig, request: SynthesisOptions, choice: EngineChoice) -> EngineId:
    """The engine as it is installed here, without the request's own options, as workers look."""
    from anyrig.cluster.speech import identify_engine

    return identify_engine(find_weights(rig, request, choice.name, choice.engine_class))


def _check_voices_match(
    choice: EngineChoice, engine: EngineId, workers: Sequence[WorkerInfo]
) -> None:
    """Voices that were added to an engine from recordings usually exist on this machine alone."""
    own = [voice.name for voice in choice.weights.voices if voice.digest]
    theirs = [one for worker in workers if (one := worker.find_engine(engine.engine)) is not None]
    only_voices_differ = any(
        (engine.version, engine.fingerprint) == (one.version, one.fingerprint) for one in theirs
    )
    if own and theirs and engine not in theirs and only_voices_differ:
        raise WorkError(
            f"{choice.name} has voices on this machine ({', '.join(own[:3])}) that the cluster's"
            " workers do not have",
            hint=Message(
                "Leave {cluster} out, or copy the voices to the workers.",
                cluster=OptionRef("cluster"),
            ),
        )


# -- who is in a cluster ---------------------------------------------------------------------------


def read_status(client: BrokerClient) -> ClusterStatus:
    """Every worker that has joined and not left, and the coordinator."""
    from anyrig.cluster.registry import WorkerRegistry

    return WorkerRegistry(client).read_status()


def drain_workers(client: BrokerClient, names: Sequence[str], *, on: bool = True) -> list[str]:
    """Have workers finish what they have and leave, or take that back; the workers' names.

    A name is a worker's, a machine's with all its workers, or a host's.
    """
    from anyrig.cluster.registry import WorkerRegistry

    registry = WorkerRegistry(client)
    found = list(dict.fromkeys(one for name in names for one in _find_workers(client, name)))
    for name in found:
        registry.drain(name, on=on)
    return found


def wait_until_drained(client: BrokerClient, names: Sequence[str], timeout_s: float) -> None:
    """Wait until none of these workers has anything to do."""
    from anyrig.cluster.registry import WorkerRegistry

    registry, end = WorkerRegistry(client), time.monotonic() + timeout_s
    while True:
        alive = client.retry(registry.list_alive)
        busy = [
            name for name in names
            if name in alive and (alive[name].status != "draining" or alive[name].tasks)
        ]  # fmt: skip
        if not busy:
            return
        if time.monotonic() > end:
            raise WorkError(
                f"{', '.join(busy)} still has work after {timeout_s:g} s",
                hint="`anyrig cluster status` shows it. If it is killed, others do its work.",
            )
        time.sleep(_IDLE_POLL_S)


def forget_workers(client: BrokerClient, names: Sequence[str]) -> None:
    """Take lost workers off the list."""
    from anyrig.cluster.registry import LOST, WorkerRegistry

    registry = WorkerRegistry(client)
    rows = {row.name: row for row in registry.read_status().rows}
    for name in names:
        _find_workers(client, name)
        if name in rows and rows[name].status != LOST:
            raise InvalidInputError(
                f"{name} is alive and would register again",
                hint=f"`anyrig cluster drain {name}` lets it leave.",
            )
        registry.remove(name)


def _find_workers(client: BrokerClient, name: str) -> list[str]:
    from anyrig.cluster.registry import WorkerRegistry

    registry = WorkerRegistry(client)
    found = registry.find_workers(name)
    if not found:
        known = registry.list_names()
        import difflib

        near = difflib.get_close_matches(name, known, n=1)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise InvalidInputError(
            f"unknown worker {name[:80]!r}", hint=f"{guess}Workers: {', '.join(known) or 'none'}."
        )
    return found


class ClusterMonitor:
    """A cluster, polled every two seconds by one thread; everybody reads what it saw last.

    Args:
        url: of the broker.
    """

    def __init__(self, url: str) -> None:
        from anyrig.cluster.broker import BrokerClient, mask_password

        check_celery()
        self._client = BrokerClient(url)
        self._last: dict[str, Any] = {
            "broker": mask_password(self._client.url), "state": "starting", "error": "",
            "warnings": [], "coordinator": None, "workers": [],
        }  # fmt: skip
        self._warnings: list[str] = []
        self._stopped, self._wake = threading.Event(), threading.Event()
        self._polled = threading.Condition()
        self._num_polls = 0
        self._thread = threading.Thread(target=self._run, name="anyrig-cluster", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._client.close()

    def now(self) -> Mapping[str, Any]:
        """As it was last seen."""
        return self._last

    def drain(self, name: str, *, on: bool) -> Mapping[str, Any]:
        """Drain a worker or a machine, or take that back; how the cluster is then."""
        drain_workers(self._client, [name], on=on)
        return self._poll_again()

    def forget(self, name: str) -> Mapping[str, Any]:
        """Take a lost worker off the list."""
        forget_workers(self._client, [name])
        return self._poll_again()

    def _poll_again(self) -> Mapping[str, Any]:
        """As it is seen by a poll that begins now."""
        with self._polled:
            wanted = self._num_polls + 2  # one may be under way
            self._wake.set()
            self._polled.wait_for(lambda: self._num_polls >= wanted, timeout=_POLL_S + 1)
        return self._last

    def _run(self) -> None:
        check_at = 0.0
        while not self._stopped.is_set():
            now = time.monotonic()
            self._last = self._poll(find_exposures=now >= check_at)
            if now >= check_at and self._last["state"] == "ready":
                check_at = now + _EXPOSURE_S
            with self._polled:
                self._num_polls += 1
                self._polled.notify_all()
            self._wake.wait(_POLL_S)
            self._wake.clear()

    def _poll(self, *, find_exposures: bool) -> dict[str, Any]:
        from anyrig.cluster import broker

        try:
            self._client.check()
            found = read_status(self._client).describe()
            if find_exposures:
                self._warnings = broker.find_exposures(self._client)
            more = {"state": "ready", "error": "", "warnings": self._warnings}
            return {**self._last, **more, **found}
        except AnyrigError as error:
            message = error.message
        except Exception as error:  # noqa: BLE001 - reported, and polled again
            message = f"{type(error).__name__}: {error}"
        if self._last["state"] != "away":
            log.warning("%s", message)
        # Nobody is known to be gone: the rows stay as they were last seen.
        return {**self._last, "state": "away", "error": message}
