"""Devices and figures as they go over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Running(BaseModel):
    """A process on a device."""

    pid: int
    name: str = Field(description="What is loaded in a worker of ours, or the program's name.")
    memory_bytes: int | None = None
    ours: bool | None = Field(None, description="null where nobody can tell.")


class DeviceRow(BaseModel):
    """A device as it is, with its last sample. There is more in it, as `anyrig devices --json`."""

    model_config = ConfigDict(extra="allow")

    id: str
    name: str
    kind: str = Field(description="`gpu` or `cpu`.")
    usable: bool
    chosen: bool = Field(description="Whether work goes there now.")
    why: str = Field(description="Why it is not used; empty where it is.")
    fix: str = Field(description="The command that mends it; empty where there is none.")
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    load: float | None = Field(None, description="Percent of the time in which it computed.")
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    running: list[Running] = []


class Devices(BaseModel):
    """All devices, and which is used for what reason."""

    devices: list[DeviceRow]
    reason: str = Field(description="Why the chosen one is used.")
    word: str = Field("", description="What was asked for: `auto`, `all` or a device.")
    warnings: list[str] = []
    choice: dict[str, Any] | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "devices": [
                        {"id": "cpu", "name": "Neoverse-V1", "kind": "cpu", "usable": True,
                         "chosen": True, "why": "", "fix": "", "memory_total_bytes": 8254390272,
                         "memory_free_bytes": 5254390272, "load": 12.5, "temperature_c": None,
                         "power_w": None, "running": []}
                    ],
                    "reason": "the CPU (no GPU found)", "word": "auto", "warnings": [],
                }
            ]
        }
    )  # fmt: skip


class Chosen(BaseModel):
    """A device to use from now on."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"device": "cpu"}, {"device": "auto"}]}
    )

    device: str = Field(
        min_length=1, max_length=200,
        description="As for `--device`: an id, a name or a part of one, `cuda:0`, `cpu`, `gpu`, "
        "`auto`, `all`.",
    )  # fmt: skip


class Saved(BaseModel):
    """What was saved."""

    device: str
    name: str


class Used(Devices):
    """What was saved, and what it comes to."""

    saved: Saved


class BenchFigure(BaseModel):
    """One measured figure of a device."""

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
    """What was measured here; a job of kind `bench` measures anew."""

    figures: list[BenchFigure]
