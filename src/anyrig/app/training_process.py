"""Several processes that train one model: started here, and each of them runs this module.

    python -m anyrig.app.training_process '{"run": ..., "devices": [...], "request": {...}}'

The first process sends its events and log records to the process that started it, over a socket of
this host. Errors are raised: the launcher collects them and reports the one that came first.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app import runs, training
from anyrig.app.events import (
    DeviceEvent,
    Event,
    NoticeEvent,
    OnEvent,
    ProgressEvent,
    TrainingEvent,
    WarningEvent,
)
from anyrig.app.rig import Rig
from anyrig.app.runs import Run, TrainingResult
from anyrig.app.training import TrainingRequest
from anyrig.errors import DeviceUnusableError, WorkError, mention
from anyrig.options import request_from_json, request_to_json

if TYPE_CHECKING:
    from anyrig.placement import Placement

log = logging.getLogger(__name__)
_CHANNEL_VARIABLE = "ANYRIG_TRAINING_CHANNEL"
"""`PORT:SECRET` of the socket; in the environment, since everyone may read an argument list."""
_POLL_S, _HELLO_S = 0.2, 5.0
_PLAIN_EVENTS = {
    one.__name__: one for one in (ProgressEvent, WarningEvent, NoticeEvent, DeviceEvent)
}


def choose_devices(rig: Rig, request: TrainingRequest) -> tuple[str, ...]:
    """The device of each process, by id; processes share devices only on a CPU."""
    choice = rig.preview_device(request)
    for warning in choice.warnings:
        rig.warn(warning)
    first = choice.device
    if len(choice.devices) == 1 and first.kind == "gpu":
        others = (
            one for one in rig.machine.devices
            if one.usable and one.kind == "gpu" and one.vendor == first.vendor
        )  # fmt: skip
        ids = list(dict.fromkeys([first.id, *(one.id for one in others)]))
    else:
        ids = [one.id for one in choice.devices if one.kind == first.kind]
    if request.nproc == "auto":
        return tuple(ids)
    count = int(request.nproc)
    if first.kind == "gpu" and count > len(ids):
        raise DeviceUnusableError(
            f"{count} processes were requested, but there are {len(ids)} devices of the kind of"
            f" {first.name}",
            hint=f"Pass {mention('nproc', str(len(ids)))} or {mention('device', 'cpu')}.",
        )
    return tuple(ids[number % len(ids)] for number in range(count))


def launch(
    rig: Rig, request: TrainingRequest, run: Run, devices: Sequence[str], on_event: OnEvent
) -> TrainingResult:
    """Train in several processes. Ctrl+C is passed on to them, so that they save what they have."""
    from anyrig.training.distributed.launch import launch as start

    if rig.machine.cpu_device.id in devices:
        request = replace(request, no_bench=True)  # processes on one CPU would measure each other
    arguments = {
        "run": str(run.folder), "devices": list(devices), "request": request_to_json(request),
        "config": rig.config, "log_level": logging.getLogger().getEffectiveLevel(),
    }  # fmt: skip
    (run.folder / runs.RESULT_FILE).unlink(missing_ok=True)
    with _receive_events(on_event) as channel:
        try:
            start(
                ["-m", __name__, json.dumps(arguments)],
                len(devices),
                environment={**rig.environment, _CHANNEL_VARIABLE: channel},
                tell=lambda message: on_event(WarningEvent(message)),
                cores=max(1, int(rig.machine.cpu.cores_usable)),
            )
        except KeyboardInterrupt:
            if runs.load_result(run.folder) is None:
                raise
    result = runs.load_result(run.folder)
    if result is None:
        raise WorkError("the processes ended without a result", hint="See their output above.")
    if result.finished and training.UNWRITTEN in result.made:
        result = training.write_sharded_model(run, result)
    return result


def main(words: Sequence[str]) -> int:
    """Train as one of several processes."""
    arguments = json.loads(words[0])
    devices = arguments["devices"]
    device = devices[int(os.environ["LOCAL_RANK"])]  # set by torchrun
    channel = os.environ.pop(_CHANNEL_VARIABLE)
    is_first = os.environ["RANK"] == "0"
    with (
        _send_events(channel, arguments["log_level"]) if is_first else _ignore_events() as on_event
    ):
        rig = Rig(config=arguments["config"], on_event=on_event)
        request = request_from_json(TrainingRequest, {**arguments["request"], "device": device})
        run = runs.open_run(Path(arguments["run"]))
        placement = divide_placement(
            training.place_training(rig, request, run.train), devices.count(device),
            rig.machine.cpu.cores_usable,
        )  # fmt: skip
        training.train_in_process(run, placement, rig.environment, on_event)
    return 0


def divide_placement(placement: Placement, num_processes: int, cores: float) -> Placement:
    """The share of one of several processes on the same device."""
    if num_processes < 2:
        return placement
    budget = placement.budget_bytes
    threads = max(1, int(cores) // num_processes)
    reason = f"shared by {num_processes} processes, {threads} threads each"
    return replace(
        placement,
        threads=threads,
        budget_bytes=budget // num_processes if budget is not None else None,
        reasons=(*placement.reasons, reason),
    )


# -- events ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _receive_events(on_event: OnEvent) -> Iterator[str]:
    """Pass on what the first process sends; yields what it needs to connect."""
    secret = secrets.token_hex(16)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_POLL_S)
        reader = threading.Thread(
            target=_accept, args=(server, secret, on_event, ended), daemon=True
        )
        reader.start()
        try:
            yield f"{server.getsockname()[1]}:{secret}"
        finally:
            ended.set()
            reader.join(_HELLO_S)


def _accept(server: socket.socket, secret: str, on_event: OnEvent, ended: threading.Event) -> None:
    """Read one connection after the other: processes that ran out of memory start again."""
    while not ended.is_set():
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        # ValueError: the process was killed while it sent a line.
        with contextlib.suppress(OSError, ValueError), connection:
            connection.settimeout(_HELLO_S)
            lines = connection.makefile("rb")
            if not secrets.compare_digest(lines.readline(100).strip(), secret.encode()):
                continue
            connection.settimeout(None)
            for line in lines:
                _pass_on(json.loads(line), on_event)


def _pass_on(data: Mapping[str, Any], on_event: OnEvent) -> None:
    if data["type"] == "log":
        logging.getLogger(data["name"]).log(data["level"], "%s", data["message"])
    else:
        on_event(_event_from_json(data))


@contextlib.contextmanager
def _send_events(channel: str, log_level: int) -> Iterator[OnEvent]:
    port, _, secret = channel.partition(":")
    lock = threading.Lock()
    with socket.create_connection(("127.0.0.1", int(port))) as connection:

        def send(data: Mapping[str, Any]) -> None:
            # The parent may be gone: then this process ends soon, and saves what it has.
            with lock, contextlib.suppress(OSError):
                connection.sendall(json.dumps(data, default=str).encode() + b"\n")

        connection.sendall(secret.encode() + b"\n")
        handler = _LogSender(send)
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(log_level)
        try:
            yield lambda event: send(_event_to_json(event))
        finally:
            root.removeHandler(handler)


@contextlib.contextmanager
def _ignore_events() -> Iterator[OnEvent]:
    yield lambda event: None


class _LogSender(logging.Handler):
    def __init__(self, send: Any) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        self._send({
            "type": "log", "name": record.name, "level": record.levelno,
            "message": record.getMessage(),
        })  # fmt: skip


def _event_to_json(event: Event) -> dict[str, Any]:
    if not isinstance(event, TrainingEvent):
        return {"type": type(event).__name__, "values": asdict(event)}
    report = event.report
    values = report._asdict() if isinstance(report, tuple) else asdict(report)
    return {
        "type": type(report).__name__, "values": values, "total_steps": event.total_steps,
        "unit": event.unit,
    }  # fmt: skip


def _event_from_json(data: Mapping[str, Any]) -> Event:
    if plain := _PLAIN_EVENTS.get(data["type"]):
        return plain(**data["values"])
    from anyrig.training.watch.alerts import Alert
    from anyrig.training.watch.figures import Figures, RunEvent, Validation

    reports = {one.__name__: one for one in (Alert, Figures, RunEvent, Validation)}
    report = reports[data["type"]](**data["values"])
    return TrainingEvent(report, data["total_steps"], data["unit"])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
