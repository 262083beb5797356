"""Workers of a cluster on this machine: which devices, which engines, and running them.

A single worker runs in this process. Several (`nodes`, or all devices) run in a process each, which
are restarted when they die and end with this one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.cluster import check_celery, find_default_broker
from anyrig.app.compute import ComputeOptions
from anyrig.app.heartbeat_file import HeartbeatFile
from anyrig.backends.process import ChildModule, start_module
from anyrig.errors import (
    AnyrigError,
    BrokerAccessError,
    BrokerUnavailableError,
    InvalidInputError,
    InvalidOptionError,
    Message,
    OptionRef,
    WorkError,
    error_from_dict,
    error_to_dict,
    message_from_json,
    messages_to_json,
)
from anyrig.events import ClusterEvent, OnEvent, WarningEvent
from anyrig.options import option, request_from_json, request_to_json
from anyrig.placement import check_num_processes
from anyrig.units import is_whole_number

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.cluster.broker import BrokerClient
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device

log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_NODES = 64
_MONITOR_S, _FIRST_SAMPLE_S = 5.0, 3.0
_RESTART_S, _MAX_RESTART_S = 1.0, 60.0
_HEALTHY_S = 60.0
"""A node that ran for so long was healthy: its next death is restarted at once."""
_POLL_S, _STOP_S = 0.2, 40.0
_FINAL_CODES = (0, 2, 3, 4)
"""Exit codes after which a restart would be the same: wrong input, no device, no package."""


@dataclass(frozen=True, kw_only=True)
class WorkerRequest(ComputeOptions):
    """Worker."""

    broker: str = option(
        "", "such as redis://HOST:6379/0, or rediss://:PASSWORD@HOST:6380/0 with TLS",
        metavar="URL",
    )  # fmt: skip
    join: str = option(
        "", "the token that `anyrig coordinator` printed; use the variable ANYRIG_CLUSTER_BROKER"
        " to hide it from other users of this machine", metavar="TOKEN",
    )  # fmt: skip
    name: str = option("", "name of the worker; default: the host name", metavar="NAME")
    nodes: int | None = option(None, "workers on each device; default 1", metavar="N")
    wait: float | None = option(
        None, "seconds to wait for the broker at the start; 0: none; default: no limit",
        metavar="S", ge=0,
    )  # fmt: skip


@dataclass(frozen=True)
class WorkerNode:
    """One worker: a device under a name."""

    device: Device
    name: str
    machine: str
    """Name that all nodes of this machine share."""
    fixed_name: bool
    """Whether a person chose the name: then it is not changed if it is taken."""
    share: int = 1
    """How many nodes share the device."""
    number: int = 0
    """Which of them this is."""


def run_worker(rig: Rig, request: WorkerRequest, on_event: OnEvent) -> int:
    """Run this machine's workers until they are told to stop; the exit code."""
    from anyrig.backends.memory import limit_arenas

    limit_arenas()  # before there are threads
    check_celery()
    url = find_worker_broker(rig, request)
    nodes = plan_nodes(rig, request)
    if len(nodes) == 1:
        _run_node(rig, request, nodes[0], url, on_event)
        return 0
    return _Supervisor(rig, request, nodes, url, on_event).run()


def find_worker_broker(rig: Rig, request: WorkerRequest) -> str:
    from anyrig.cluster import token
    from anyrig.cluster.broker import normalize_url

    if request.join and request.broker:
        raise InvalidOptionError(
            "join",
            Message("and {broker} were both given", broker=OptionRef("broker")),
            hint="A token has the address.",
        )
    if request.join:
        return normalize_url(token.read(request.join).broker)
    return normalize_url(request.broker or find_default_broker(rig))


# -- nodes ----------------------------------------------------------------------------------------


def plan_nodes(rig: Rig, request: WorkerRequest) -> list[WorkerNode]:
    """What is started: a worker for each device, or several."""
    name, chosen = _choose_name(rig, request)
    choice = choose_worker_device(rig, request)
    devices: Sequence[Device] = choice.devices if choice.selector == "all" else (choice.device,)
    count = _count_nodes(rig, request)
    several = len(devices) * count > 1
    nodes = []
    for device in devices:
        suffix = f"-{_backend_word(device).replace(':', '')}" if len(devices) > 1 else ""
        for number in range(count):
            last = f"-{number + 1}" if count > 1 else ""
            nodes.append(
                WorkerNode(device, f"{name}{suffix}{last}", name, chosen or several, count, number)
            )
    return nodes


def choose_worker_device(rig: Rig, request: WorkerRequest) -> DeviceChoice:
    if not any(gpu.usable for gpu in rig.machine.gpus):
        request = replace(request, no_bench=True)  # nothing to choose between
    return rig.choose_device(request)


def _backend_word(device: Device) -> str:
    from anyrig.devices.choose import select_backend

    backend = select_backend(device)
    return backend.selector if backend is not None else device.kind


def _choose_name(rig: Rig, request: WorkerRequest) -> tuple[str, bool]:
    """The name, and whether a person chose it."""
    given = (
        request.name or rig.environment.get("WORKER_ID", "").strip() or rig.settings.cluster.name
    )
    if given:
        if not _NAME.fullmatch(given):
            raise InvalidInputError(
                f"{given[:64]!r} is not a valid name of a worker",
                hint="Use letters, digits, dots, - and _; at most 64.",
            )
        return given, True
    own = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")
    return own[:48] or "worker", False


def _count_nodes(rig: Rig, request: WorkerRequest) -> int:
    if request.workers_per_device is not None:
        check_num_processes(rig.machine, "workers_per_device", request.workers_per_device)
    variable = rig.environment.get("NUM_WORKERS", "").strip()
    if request.nodes is not None:
        if not 1 <= request.nodes <= _MAX_NODES:
            problem = f"must be between 1 and {_MAX_NODES}"
            raise InvalidOptionError("nodes", problem, value=request.nodes)
        return request.nodes
    if not variable:
        return rig.settings.cluster.nodes
    if not is_whole_number(variable) or not 1 <= int(variable) <= _MAX_NODES:
        raise InvalidInputError(
            f"NUM_WORKERS must be between 1 and {_MAX_NODES}, not {variable!r}",
            hint="Set it to a number, or unset it.",
        )
    return int(variable)


# -- one worker -----------------------------------------------------------------------------------


def _run_node(
    rig: Rig, request: WorkerRequest, node: WorkerNode, url: str, on_event: OnEvent, *,
    parent: int | None = None,
) -> None:  # fmt: skip
    """Run one worker until it is told to stop.

    Args:
        rig: the machine.
        request: its options.
        node: what it is.
        url: of the broker.
        on_event: receives what it reports.
        parent: file descriptor that is closed when the process ends that started this one.
    """
    from anyrig.app.cluster_engines import DeviceEngines
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.worker import ClusterWorker, WorkerDevice

    _quieten_celery()
    _share_cores(rig, node)
    file = HeartbeatFile(rig.environment, node.name)
    with ExitStack() as stack:
        stack.callback(file.delete)
        client = BrokerClient(url)
        stack.callback(client.close)
        _wait_for_broker(rig, client, request.wait, file)
        gpus = GpuObserver(rig, node.device)
        stack.callback(gpus.close)
        gpus.start()

        def report(event: str, facts: Mapping[str, Any]) -> None:
            on_event(ClusterEvent(event, worker.name, facts))

        device = node.device
        worker = ClusterWorker(
            client, node.name,
            WorkerDevice(device.name, device.kind, _backend_word(device),
                         (device.memory.total_bytes or 0) >> 20),
            DeviceEngines(rig, request, node),
            machine=node.machine, observe=gpus, on_event=report, on_heartbeat=file,
        )  # fmt: skip
        stack.enter_context(worker.handle_signals())
        worker.register(fixed_name=node.fixed_name, shared_pids=not _in_container(rig.environment))
        stack.callback(worker.close)
        if parent is not None:
            threading.Thread(target=_stop_with_parent, args=(parent, worker), daemon=True).start()
        worker.run()


def _stop_with_parent(parent: int, worker: Any) -> None:
    with contextlib.suppress(OSError, ValueError):
        while os.read(parent, 4096):
            pass
    worker.stop("the process that started it ended")


def _wait_for_broker(
    rig: Rig, client: BrokerClient, timeout_s: float | None, file: HeartbeatFile
) -> None:
    """Wait for the broker, and check that this machine may join."""
    from anyrig.cluster.broker import find_exposures, mask_password
    from anyrig.cluster.registry import WorkerRegistry

    began, warned, wait_s = time.monotonic(), False, 0.5
    while True:
        file()
        try:
            client.check()
            break
        except BrokerAccessError:
            raise
        except BrokerUnavailableError as error:
            if timeout_s is not None and time.monotonic() - began >= timeout_s:
                raise
            if not warned:
                rig.warn(Message("{problem}; trying again until it does", problem=error.message))
                warned = True
            time.sleep(wait_s)
            wait_s = min(5.0, 1.5 * wait_s)
    if warned:
        log.warning("the broker %s responds", mask_password(client.url))
    for exposure in find_exposures(client):
        rig.warn(exposure)
    WorkerRegistry(client).check_version()


def _share_cores(rig: Rig, node: WorkerNode) -> None:
    """Nodes that share a CPU get cores of their own, if there are enough."""
    if node.share == 1 or node.device.kind != "cpu" or not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    mine = cores[node.number :: node.share] or [cores[node.number % len(cores)]]
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, mine)
        rig.__dict__.pop("machine", None)  # discovered anew


def _quieten_celery() -> None:
    """What Celery logs may contain texts, and outages are reported by the worker itself."""
    verbose = logging.getLogger().isEnabledFor(logging.DEBUG)
    for name in ("celery", "kombu", "redis", "amqp"):
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.WARNING)
    for name in ("celery.app.trace", "celery.worker.strategy"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("celery.backends.redis").setLevel(logging.CRITICAL)
    if not verbose:
        logging.getLogger("celery.worker.consumer").setLevel(logging.CRITICAL)


def _in_container(environment: Mapping[str, str]) -> bool:
    word = environment.get("ANYRIG_CONTAINER", "").lower()
    return word not in ("0", "no", "false") if word else Path("/.dockerenv").exists()


class GpuObserver:
    """What the GPUs report, as fields of a worker's health; costs nothing without a GPU."""

    def __init__(self, rig: Rig, device: Device) -> None:
        self._device = device
        self._gpus = {gpu.id for gpu in rig.machine.gpus}
        self._monitor = None
        if self._gpus and not rig.is_recorded:
            from anyrig.monitor import Monitor

            self._monitor = Monitor(rig.machine, _MONITOR_S, 2)

    def start(self) -> None:
        """Waits for the first sample."""
        if self._monitor is None:
            return
        self._monitor.start()
        end = time.monotonic() + _FIRST_SAMPLE_S
        while self._monitor.latest() is None and time.monotonic() < end:
            time.sleep(0.05)

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()

    def __call__(self) -> Mapping[str, Any]:
        """Of the worker's own GPU, or of all if it works on the CPU."""
        sample = self._monitor.latest() if self._monitor is not None else None
        responding = {
            one.device: one.memory_free_bytes
            for one in (sample.devices if sample is not None else ())
            if one.device in self._gpus and not one.lost and "device" not in one.unknown
        }
        mine = responding
        if self._device.kind == "gpu":
            mine = {name: free for name, free in responding.items() if name == self._device.id}
        free = [one for one in mine.values() if one is not None]
        return {
            "gpu_available": bool(mine),
            "gpu_count": len(responding),
            "gpu_memory_free_mb": round(max(free) / (1 << 20)) if free else None if mine else 0,
        }


# -- several workers ------------------------------------------------------------------------------


@dataclass(eq=False)
class _NodeProcess:
    node: WorkerNode
    process: ChildModule | None = None
    started_at: float = 0.0
    restart_s: float = _RESTART_S
    restart_at: float = 0.0
    exit_code: int | None = None
    """Set when it is not started again."""


class _Supervisor:
    """Runs a process for each node, and restarts those that die."""

    def __init__(
        self,
        rig: Rig,
        request: WorkerRequest,
        nodes: Sequence[WorkerNode],
        url: str,
        on_event: OnEvent,
    ) -> None:
        self._rig, self._request, self._url, self._on_event = rig, request, url, on_event
        self._nodes = [_NodeProcess(node) for node in nodes]
        self._stopping = False
        self._file = HeartbeatFile(rig.environment, ".all")

    def run(self) -> int:
        """Until all have stopped; the highest exit code."""
        from anyrig.cluster.broker import BrokerClient

        client = BrokerClient(self._url)
        with contextlib.closing(client):  # what holds for all of them is reported once
            _wait_for_broker(self._rig, client, self._request.wait, self._file)
        with self._handle_signals():
            try:
                while any(one.exit_code is None for one in self._nodes):
                    for one in self._nodes:
                        self._check(one)
                    self._file()
                    time.sleep(_POLL_S)
            finally:
                self._file.delete()
                self._stop_all()
        return max(one.exit_code or 0 for one in self._nodes)

    def _check(self, one: _NodeProcess) -> None:
        now = time.monotonic()
        if one.exit_code is not None:
            return
        if one.process is None:
            if self._stopping:
                one.exit_code = 0
            elif now >= one.restart_at:
                self._start(one)
            return
        code = one.process.poll()
        if code is None:
            return
        _close(one)
        if code in _FINAL_CODES or self._stopping:
            one.exit_code = max(0, code)
            HeartbeatFile(self._rig.environment, one.node.name).delete()
            return
        if now - one.started_at > _HEALTHY_S:
            one.restart_s = _RESTART_S
        how = f"died of signal {-code}" if code < 0 else f"exited with {code}"
        message = f"{one.node.name} {how}; started again in {one.restart_s:g} s"
        self._on_event(WarningEvent(message))
        one.restart_at = now + one.restart_s
        one.restart_s = min(_MAX_RESTART_S, 2 * one.restart_s)

    def _start(self, one: _NodeProcess) -> None:
        node, root = one.node, logging.getLogger()
        order = {
            "request": request_to_json(replace(self._request, broker=self._url, join="")),
            "node": {**vars(node), "device": node.device.id},
            "config": self._rig.config,
            "log_level": root.level,
        }
        environment = {**os.environ, **self._rig.environment}
        one.process = start_module(__name__, environment, stderr=None)
        with contextlib.suppress(OSError):  # it died at once
            one.process.stdin.write(json.dumps(order).encode() + b"\n")
            one.process.stdin.flush()
        one.started_at = time.monotonic()
        threading.Thread(target=self._read_events, args=(one.process,), daemon=True).start()
        log.info("%s is process %d", node.name, one.process.pid)

    def _read_events(self, process: ChildModule) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in process.stdout:
                found = json.loads(line)
                if "error" in found:
                    error = error_from_dict(found["error"])
                    self._on_event(
                        WarningEvent(
                            Message(
                                "{problem}\n  hint: {hint}", problem=error.message, hint=error.hint
                            )
                        )
                    )
                elif "warning" in found:
                    self._on_event(WarningEvent(message_from_json(found["warning"])))
                else:
                    self._on_event(ClusterEvent(found["event"], found["name"], found["facts"]))

    @contextlib.contextmanager
    def _handle_signals(self) -> Iterator[None]:
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True
        for one in self._nodes:
            if one.process is not None and one.process.poll() is None:
                one.process.terminate()

    def _stop_all(self) -> None:
        running = [one for one in self._nodes if one.process is not None]
        for one in running:
            assert one.process is not None
            if one.process.poll() is None:
                one.process.terminate()
        end = time.monotonic() + _STOP_S
        for one in running:
            assert one.process is not None
            try:
                one.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
            _close(one)


def _close(one: _NodeProcess) -> None:
    process, one.process = one.process, None
    if process is not None:
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()


def main() -> int:
    """The process of one node: what it is comes on standard input, events go to standard output."""
    from anyrig.app.rig import Rig

    order = json.loads(_read_line(sys.stdin.fileno()))
    logging.basicConfig(level=order["log_level"], format="%(levelname)s %(name)s: %(message)s")

    def report(event: Any) -> None:
        if isinstance(event, ClusterEvent):
            _write({"event": event.event, "name": event.name, "facts": event.facts})
        elif isinstance(event, WarningEvent):
            _write({"warning": messages_to_json(event.message)})

    try:
        rig = Rig(config=order["config"], on_event=report, keep_models=False)
        request = request_from_json(WorkerRequest, order["request"])
        known = {one.id: one for one in rig.machine.devices}
        device = known.get(order["node"]["device"])
        if device is None:
            raise WorkError("its device is gone", hint="Run `anyrig doctor`.")
        node = WorkerNode(**{**order["node"], "device": device})
        request = replace(request, device=device.id)
        parent = sys.stdin.fileno()
        _run_node(rig, request, node, request.broker, report, parent=parent)
    except AnyrigError as error:
        _write({"error": error_to_dict(error)})
        return error.exit_code
    return 0


def _read_line(descriptor: int) -> bytes:
    """Unbuffered: what follows the line is read by somebody else."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return line


def _write(value: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError, ValueError):  # the parent is gone
        sys.stdout.write(f"{json.dumps(value, default=str)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
