"""/devices and /bench: the machine, which device is used, and what was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from anyrig.server.errors import problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.state import ServerState
from anyrig.speech.voice_rates import VoiceRates

T = TypeVar("T")


class Running(BaseModel):
    """A process on a device."""

    pid: int
    name: str = Field(description="The model of our worker, or the program's name.")
    memory_bytes: int | None = None
    ours: bool | None = Field(
        None, description="Whether it is one of our workers; null if unknown."
    )


class DeviceRow(BaseModel):
    """A device with its last sample, and all fields of `anyrig devices --json`."""

    model_config = ConfigDict(extra="allow")

    id: str
    name: str
    kind: str = Field(description="`gpu` or `cpu`.")
    usable: bool
    chosen: bool = Field(description="Whether work runs there now.")
    reason: str = Field(description="Why it is not used; empty if it is.")
    fix: str = Field(description="The command that fixes it; empty if there is none.")
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    load: float | None = Field(None, description="Utilisation in percent.")
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    running: list[Running] = []


class Devices(BaseModel):
    """All devices, which one is used, and why."""

    devices: list[DeviceRow]
    reason: str = Field(description="Why the chosen device is used.")
    selector: str = Field("", description="What was requested: `auto`, `all` or a device.")
    warnings: list[str] = []
    choice: dict[str, Any] | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "devices": [
                        {"id": "cpu", "name": "Neoverse-V1", "kind": "cpu", "usable": True,
                         "chosen": True, "reason": "", "fix": "", "memory_total_bytes": 8254390272,
                         "memory_free_bytes": 5254390272, "load": 12.5, "temperature_c": None,
                         "power_w": None, "running": []}
                    ],
                    "reason": "the CPU (no GPU found)", "selector": "auto", "warnings": [],
                }
            ]
        }
    )  # fmt: skip


class DeviceChosen(BaseModel):
    """A device to use from now on."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"device": "cpu"}, {"device": "auto"}]}
    )

    device: str = Field(
        min_length=1, max_length=200,
        description="As for `--device`: an id, a name or a part of one, `cuda:0`, `cpu`, `gpu`, "
        "`auto`, `all`.",
    )  # fmt: skip


class SavedDeviceRow(BaseModel):
    """The saved device."""

    device: str
    name: str


class Used(Devices):
    """The saved device, and all devices."""

    saved: SavedDeviceRow


class BenchFigure(BaseModel):
    """A measurement of a device."""

    device: str
    name: str
    when: str = ""
    kernel: str = Field(description="`product`, `sustained` or `bandwidth`.")
    precision: str
    size: int
    value: float
    unit: str
    seconds: float
    spread: float = 0.0
    rounds: int = 1
    backend: str = ""


class Bench(BaseModel):
    """Measurements of this machine; a job of kind `bench` measures again."""

    figures: list[BenchFigure]
    books: dict[str, float] = Field(
        description="How many times real time books were made, by engine and voice."
    )


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["rig"], route_class=JsonRoute)
    # Its own threads: the common ones may all be waiting, and the page asks every second.
    limiter = anyio.CapacityLimiter(2)
    machine = server.machine

    async def run(call: Callable[[], T]) -> T:
        return await to_thread.run_sync(call, limiter=limiter)

    @routes.get("/devices", response_model=Devices, summary="List devices, and which one is used")
    async def devices() -> Any:
        """Each device with its load, why it is not used, and the command that fixes that."""
        return await run(machine.devices)

    @routes.put(
        "/devices/chosen", response_model=Used, summary="Choose the device",
        responses=problem_responses(404),
    )  # fmt: skip
    async def choose(chosen: DeviceChosen) -> Any:
        """As `anyrig use`: saved for later starts, too. Models on other devices are loaded again
        when they are next used.
        """
        return await run(lambda: machine.use(chosen.device))

    @routes.get("/bench", response_model=Bench, summary="Measurements of this machine")
    async def bench() -> Any:
        """The results of `anyrig bench` under the present driver and libraries, and the speed of
        books that were made.
        """
        books = await run(VoiceRates(server.rig.folders.rates).list_speeds)
        return {"figures": await run(machine.measurements), "books": books}

    return routes
