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
import pickle
import secrets
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from logging.handlers import QueueHandler
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from pathlib import Path
from queue import Queue

from anyrig.app import training
from anyrig.app.rig import Rig
from anyrig.app.training import TrainingRequest
from anyrig.errors import WorkError
from anyrig.events import Event, OnEvent, WarningEvent
from anyrig.options import request_from_json, request_to_json
from anyrig.training import runs
from anyrig.training.runs import Run, TrainingResult
from anyrig.training.train_run import UNWRITTEN, train_run, write_sharded_model

log = logging.getLogger(__name__)
_CHANNEL_VARIABLE = "ANYRIG_TRAINING_CHANNEL"
"""Key and address of the socket; in the environment, as everyone may read an argument list."""
_END_TIMEOUT_S = 5.0


def launch(
    rig: Rig, request: TrainingRequest, run: Run, devices: Sequence[str], on_event: OnEvent
) -> TrainingResult:
    """Train in several processes. Ctrl+C is passed on to them, so that they save what they have."""
    from anyrig.training.distributed.launch import launch as start

    if rig.machine.cpu_device.id in devices:
        request = replace(request, no_bench=True)  # processes on one CPU would measure each other
    arguments = {
        "run": str(run.folder), "devices": list(devices), "request": request_to_json(request),
        "config": rig.config, "settings_folder": str(rig.settings_folder),
        "log_level": logging.getLogger().getEffectiveLevel(),
    }  # fmt: skip
    (run.folder / runs.RESULT_FILE).unlink(missing_ok=True)
    with _receive_events(on_event) as channel:
        try:
            start(
                ["-m", __name__, json.dumps(arguments)],
                len(devices),
                environment={**rig.environment, _CHANNEL_VARIABLE: channel},
                on_message=lambda message: on_event(WarningEvent(message)),
                cores=max(1, int(rig.machine.cpu.cores_usable)),
            )
        except KeyboardInterrupt:
            if runs.load_result(run.folder) is None:
                raise
    result = runs.load_result(run.folder)
    if result is None:
        raise WorkError("the processes ended without a result", hint="See their output above.")
    if result.finished and UNWRITTEN in result.made:
        result = write_sharded_model(run, training.build_task, result)
    return result


def main(words: Sequence[str]) -> int:
    """Train as one of several processes."""
    arguments = json.loads(words[0])
    devices = arguments["devices"]
    device = devices[int(os.environ["LOCAL_RANK"])]  # set by torchrun
    channel = os.environ.pop(_CHANNEL_VARIABLE)
    is_first = os.environ["RANK"] == "0"
    with (
        _send_events(channel, arguments["log_level"])
        if is_first
        else contextlib.nullcontext(lambda event: None) as on_event
    ):
        rig = Rig(
            config=arguments["config"], settings_folder=arguments["settings_folder"],
            on_event=on_event,
        )  # fmt: skip
        request = request_from_json(TrainingRequest, {**arguments["request"], "device": device})
        run = runs.open_run(Path(arguments["run"]))
        placement = training.place_training(
            rig, request, run.train, num_sharing=devices.count(device)
        )
        train_run(run, training.build_task, placement, rig.environment, on_event)
    return 0


# -- events ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _receive_events(on_event: OnEvent) -> Iterator[str]:
    """Pass on what the first process sends; yields what it needs to connect."""
    key = secrets.token_bytes(16)
    with Listener(authkey=key) as listener:
        reader = threading.Thread(target=_pass_on, args=(listener, on_event), daemon=True)
        reader.start()
        address = str(listener.address)
        try:
            yield f"{key.hex()} {address}"
        finally:
            # In a thread: a process that did not end keeps the reader from accepting this.
            threading.Thread(target=_send_end, args=(address, key), daemon=True).start()
            reader.join(_END_TIMEOUT_S)


def _pass_on(listener: Listener, on_event: OnEvent) -> None:
    """Read one connection after the other: processes that ran out of memory start again."""
    while True:
        try:
            connection = listener.accept()
        except (AuthenticationError, EOFError, ConnectionError):
            continue
        except OSError:  # the listener was closed
            return
        # A process may be killed while it sends.
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError), connection:
            while (item := connection.recv()) is not None:
                if not isinstance(item, logging.LogRecord):
                    on_event(item)
                elif logging.getLogger(item.name).isEnabledFor(item.levelno):
                    logging.getLogger(item.name).handle(item)
            return


def _send_end(address: str, key: bytes) -> None:
    with contextlib.suppress(OSError, EOFError), Client(address, authkey=key) as connection:
        connection.send(None)


@contextlib.contextmanager
def _send_events(channel: str, log_level: int) -> Iterator[OnEvent]:
    key, _, address = channel.partition(" ")
    lock = threading.Lock()
    with Client(address, authkey=bytes.fromhex(key)) as connection:

        def send(item: Event | logging.LogRecord) -> None:
            # The parent may be gone: then this process ends soon, and saves what it has.
            with lock, contextlib.suppress(OSError):
                connection.send(item)

        handler = QueueHandler(Queue())
        handler.enqueue = send  # type: ignore[assignment,method-assign]  # instead of the queue
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(log_level)
        try:
            yield send
        finally:
            root.removeHandler(handler)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
