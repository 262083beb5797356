"""Figures for Prometheus: what happened, counted where it happens."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram


class Figures:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = {"registry": self.registry, "namespace": "anyrig"}
        self.requests = Counter("requests", "Requests", ["route", "method", "status"], **made)  # type: ignore[arg-type]
        self.seconds = Histogram("request_seconds", "Time of requests", ["route"], **made)  # type: ignore[arg-type]
        self.audio = Counter("audio_seconds", "Audio made", ["engine"], **made)  # type: ignore[arg-type]
        self.first_audio = Histogram("first_audio_seconds", "Until audio began", [], **made)  # type: ignore[arg-type]
        self.texts = Counter("texts_embedded", "Texts embedded", ["model"], **made)  # type: ignore[arg-type]
        self.tasks = Counter("tasks", "Tasks on documents", ["task", "outcome"], **made)  # type: ignore[arg-type]
