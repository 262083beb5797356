"""Training runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_RUN: dict[str, Any] = {
    "id": "r1f0a9c3be2d4475", "name": "language-2026-11-15-0900", "kind": "language",
    "state": "running", "step": 120, "steps": 600, "loss": 2.31, "created": 1794700800.5,
    "since": 1794700900.0, "error": None, "job": None,
}  # fmt: skip
_ROW: dict[str, Any] = {
    "step": 120, "epoch": 0, "loss": 2.31, "rate": 0.001, "step_s": 0.12,
    "memory_bytes": 1073741824, "samples_per_s": 133.0, "units_per_s": 34000.0, "eta_s": 57.0,
    "elapsed_s": 14.8, "time_s": 1794700900.0, "grad_norm": 0.9, "scale": 1.0, "mfu": 0.31,
    "micro_batch": 16, "precision": "bf16", "num_skipped": 0, "num_retries": 0,
}  # fmt: skip


class RunShown(BaseModel):
    """A run, in short."""

    model_config = ConfigDict(json_schema_extra={"examples": [_RUN]})

    id: str
    name: str
    kind: str = Field(description="What is trained: language, images, classifier, ...")
    state: Literal["running", "finished", "stopped", "failed"]
    step: int
    steps: int | None = Field(description="How many there will be; null where nobody knows.")
    loss: float | None
    created: float = Field(description="Seconds since 1970, as all times are.")
    since: float = Field(description="When it was last heard of.")
    error: str | None
    job: str | None = Field(description="The job that it belongs to, if it was queued.")


class RunsShown(BaseModel):
    """All runs, the oldest first."""

    runs: list[RunShown]


class RunSummary(RunShown):
    """All that is known of a run."""

    task: dict[str, Any] = Field(description="What is trained on what.")
    train: dict[str, Any] = Field(description="How.")
    result: dict[str, Any] | None = Field(description="What it came to, once it has ended.")


class RunRow(BaseModel):
    """Figures of a step, or of a few neighbours."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ROW]})

    step: int
    epoch: int | None
    loss: float | None
    rate: float | None = Field(description="The learning rate.")
    step_s: float | None
    memory_bytes: int | None = Field(description="The most that was in use.")
    samples_per_s: float | None
    units_per_s: float | None
    eta_s: float | None
    elapsed_s: float | None
    time_s: float | None
    grad_norm: float | None
    scale: float | None
    mfu: float | None
    micro_batch: int | None
    precision: str | None
    num_skipped: int | None
    num_retries: int | None


class RunHistory(BaseModel):
    """How a run went so far."""

    rows: list[RunRow]
    others: list[dict[str, Any]] = Field(
        description="Validations, alerts and events, each with its `kind` and `step`."
    )
