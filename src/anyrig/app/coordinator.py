"""A coordinator of a cluster on this machine."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyrig.app.cluster import check_celery
from anyrig.app.heartbeat_file import HeartbeatFile
from anyrig.events import ClusterEvent, OnEvent, WarningEvent
from anyrig.options import Request, option

if TYPE_CHECKING:
    from types import FrameType

    from anyrig.app.rig import Rig

_POLL_S, _STEP_S = 1.0, 0.1


@dataclass(frozen=True, kw_only=True)
class CoordinatorRequest(Request):
    """Coordinator."""

    broker: str = option(
        "", "use this broker: redis://:PASSWORD@HOST:6379/0; default: REDIS_URL",
        metavar="URL",
    )  # fmt: skip
    host: str = option(
        "", "address to listen on; default: this machine's private address",
        metavar="ADDRESS",
    )  # fmt: skip
    port: int | None = option(
        None,
        "port of the broker; default: the last one, else 6379; 0: any free one",
        ge=0,
        le=65535,
    )
    address: str = option(
        "", "name or address that other machines use; default: its address", metavar="NAME"
    )
    flower: bool = option(False, "also start Flower, Celery's web page")
    flower_port: int = option(5555, "port of Flower; 0: any free one", ge=0, le=65535)
    new_token: bool = option(
        False, "create new passwords; every machine must join again with the new token",
    )  # fmt: skip


def run_coordinator(rig: Rig, request: CoordinatorRequest, on_event: OnEvent) -> None:
    """Run a coordinator until this process is told to stop.

    The first event is `listening`, with the token; then `joined`, `left` and `lost` of workers.
    """
    check_celery()
    from anyrig.cluster.coordinator import Coordinator, choose_address

    def report(event: str, facts: Mapping[str, Any]) -> None:
        on_event(ClusterEvent(event, str(facts.get("worker", "")), facts))

    file = HeartbeatFile(rig.environment, "coordinator")
    coordinator = Coordinator(
        rig.folders.cluster,
        rig.folders.coordinator,
        choose_address(request.host, request.address),
        # A password in the environment is read by nobody else.
        broker=request.broker or rig.environment.get("REDIS_URL", ""),
        port=request.port,
        flower_port=request.flower_port if request.flower else None,
        new_token=request.new_token,
        environment=rig.environment,
        on_event=report,
        warn=lambda message: on_event(WarningEvent(message)),
    )
    with SignalWait() as stop, coordinator:
        coordinator.start()
        for warning in coordinator.warnings:
            on_event(WarningEvent(warning))
        report("listening", coordinator.describe())
        try:
            while not stop.wait(_POLL_S):
                file()
                coordinator.poll()
        finally:
            file.delete()


class SignalWait:
    """Ctrl+C and SIGTERM end a loop; the second one interrupts at once.

    Not a `threading.Event`: a handler that sets one while its own thread waits for it may deadlock.
    """

    def __init__(self) -> None:
        self._received = False
        self._before: dict[signal.Signals, Any] = {}

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until told to stop; whether that was so."""
        end = time.monotonic() + seconds
        while not self._received and time.monotonic() < end:
            time.sleep(_STEP_S)
        return self._received

    def __enter__(self) -> SignalWait:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._received:
            raise KeyboardInterrupt
        self._received = True
