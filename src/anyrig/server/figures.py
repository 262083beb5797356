"""Figures for Prometheus: what happened, counted where it happens, and what is, when asked."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from anyrig.app.models import (
    LoadedModel,
    find_queue,
    format_nested_name,
    list_all_workers,
)

if TYPE_CHECKING:
    from anyrig.work.outcome import RunReport
    from anyrig.work.protocol import NestedModel

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Figures:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry, "namespace": "anyrig"}
        self.requests = Counter("requests", "Requests", ["route", "method", "status"], **made)
        self.seconds = Histogram(
            "request_seconds", "Time of requests", ["route"], buckets=_SECONDS, **made
        )
        self.audio = Counter("audio_seconds", "Audio made", ["engine"], **made)
        self.first_audio = Histogram(
            "first_audio_seconds", "Until audio began", [], buckets=_SECONDS, **made
        )
        self.texts = Counter("texts_embedded", "Texts embedded", ["model"], **made)
        self.tasks = Counter("tasks", "Tasks on files and texts", ["task", "outcome"], **made)
        self.batches = Counter("batches", "Calls of engines", ["model"], **made)
        self.items = Counter("batch_items", "Items in these calls", ["model"], **made)
        self.busy = Counter("engine_busy_seconds", "Time inside engines", ["model"], **made)
        self.out_of_memory = Counter(
            "out_of_memory", "Batches or loads that found too little memory", ["model"], **made
        )
        self.deaths = Counter("worker_deaths", "Workers that died", ["model"], **made)
        self._seen: dict[Hashable, tuple[RunReport | NestedModel, list[float]]] = {}
        """By a report's id, what of it was counted; the report is held so that ids stay its own."""
        self._died: set[int] = set()
        self._lock = threading.Lock()

    def observe(self, kept: Iterable[LoadedModel]) -> None:
        """Count what loaded models did since the last look; done before each answer and often
        enough between that none is unloaded unseen.
        """
        with self._lock:
            reports: set[Hashable] = set()
            pids: set[int] = set()
            for one in kept:
                live = find_queue(one.model)
                if live is None:
                    continue
                self._count(one.name, id(live.report), live.report)
                reports.add(id(live.report))
                for worker in live.workers():
                    for held in worker.nested_models:
                        key = (worker.pid, held.name, held.opened)
                        self._count(format_nested_name(one.name, held.name), key, held)
                        reports.add(key)
                for name, worker in list_all_workers(one.name, one.model):
                    if worker.state != "dead":
                        continue
                    pids.add(worker.pid)
                    if worker.pid not in self._died:
                        self.deaths.labels(name).inc()
            self._died = pids
            self._seen = {key: told for key, told in self._seen.items() if key in reports}

    def _count(self, name: str, key: Hashable, report: RunReport | NestedModel) -> None:
        now = [float(report.num_batches), float(report.num_items), report.busy_s,
               float(report.num_out_of_memory)]  # fmt: skip
        before = self._seen.get(key, (report, [0.0] * len(now)))[1]
        counters = (self.batches, self.items, self.busy, self.out_of_memory)
        for figure, new, old in zip(counters, now, before, strict=True):
            figure.labels(name).inc(max(0.0, new - old))
        self._seen[key] = (report, now)
