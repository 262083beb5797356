"""A cluster as it goes over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ClusterWorker(BaseModel):
    """A worker of the cluster, as it last told of itself."""

    name: str
    status: str = Field(description="`loading`, `ready`, `busy`, `draining` or `lost`.")
    device_type: str = Field(description="By what the device is driven: `cuda`, `rocm`, `cpu`.")
    gpu_available: bool
    gpu_count: int
    gpu_memory_free_mb: int | None = Field(description="MiB; null where nobody can tell.")
    tts_model_loaded: bool
    cached_models: list[str]
    device: str = Field(description="What it computes on, as a person calls it.")
    host: str
    pid: int
    speed: dict[str, float] = Field(description="Characters a second, measured, by engine.")
    segments_done: int
    shards_done: int
    versions: dict[str, Any] = Field(description="Of anyrig, Python, the protocol, its engines.")
    last_sign_s: float | None = Field(description="How long ago it gave a sign.")
    trouble: str = Field(description="Why it gets no work; empty where it may.")


class Coordinator(BaseModel):
    """Who leads the cluster."""

    version: str
    protocol: int
    box: str = Field(description="Where answers go that are too large for the broker.")
    host: str
    pid: int
    flower: str = Field(description="Flower's address, where it was started.")


class Cluster(BaseModel):
    """The cluster that this server spreads its work over."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "joined": True, "broker": "redis://:***@192.168.1.5:6379/0", "state": "ready",
                    "error": "", "warnings": [], "coordinator": None,
                    "workers": [
                        {"name": "attic", "status": "busy", "device_type": "cuda",
                         "gpu_available": True, "gpu_count": 1, "gpu_memory_free_mb": 21034,
                         "tts_model_loaded": True, "cached_models": ["hibari fp16"],
                         "device": "NVIDIA RTX 4090", "host": "attic", "pid": 4711,
                         "speed": {"hibari": 5120.0}, "segments_done": 812, "shards_done": 60,
                         "versions": {"anyrig": "0.1.0"}, "last_sign_s": 1.2, "trouble": ""}
                    ],
                }
            ]
        }
    )  # fmt: skip

    joined: bool = Field(description="Whether this server was started with a cluster.")
    broker: str = Field("", description="Its address, without the password.")
    state: Literal["", "starting", "ready", "away"] = ""
    error: str = Field("", description="Why the broker does not answer.")
    warnings: list[str] = Field([], description="Who else can reach the broker.")
    coordinator: Coordinator | None = None
    workers: list[ClusterWorker] = []


class Draining(BaseModel):
    """Whether a worker shall leave."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"drain": True}]})

    drain: bool = Field(
        description="true: it finishes what it has and gets no more; false: it may work again."
    )
