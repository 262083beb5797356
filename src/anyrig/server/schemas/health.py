"""How the server is doing, as it goes over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from anyrig.server.routes.cluster import ClusterWorker


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"] = "alive"


class WorkerHealth(BaseModel):
    """A worker process as it was last seen."""

    status: Literal["ready", "busy", "loading", "hangs", "dead"]
    device_type: str = Field(description="By what the device is driven: `cuda`, `rocm`, `cpu`.")
    gpu_available: bool = Field(description="Whether a GPU for it answered when last sampled.")
    gpu_count: int = Field(description="How many GPUs answered.")
    gpu_memory_free_mb: int | None = Field(description="MiB; null where nobody can tell.")
    tts_model_loaded: bool
    cached_models: list[str] = Field(description="What the process says that it has loaded.")


class Health(BaseModel):
    """Ready, or why not."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ready": True, "state": "ready", "models": ["speech hibari"], "problems": [],
                    "workers": [
                        {"status": "busy", "device_type": "cuda", "gpu_available": True,
                         "gpu_count": 1, "gpu_memory_free_mb": 21034, "tts_model_loaded": True,
                         "cached_models": ["hibari"]}
                    ],
                    "worker_ids": ["speech hibari:4711"],
                }
            ]
        }
    )  # fmt: skip

    ready: bool
    state: Literal["starting", "ready", "failed", "stalled", "ending"]
    workers: list[WorkerHealth]
    worker_ids: list[str] = Field(
        description="What each of these is called, in their order: the model's name and the number "
        "of the process."
    )
    models: list[str] = Field(description="Those that are loaded.")
    problems: list[str]
    cluster: list[ClusterWorker] = Field(
        [], description="Workers of the cluster that speech and books are spread over."
    )


class Gpus(BaseModel):
    """Samples of every device."""

    now: dict[str, Any] = Field(description="The last sample of each device and of the host.")
    history: list[dict[str, Any]] = Field(description="Of the last minutes, the oldest first.")
