"""Figures for machines: Prometheus' text, and JSON of every device with its history."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import anyio
from anyio import to_thread
from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from anyrig.app.models import find_queue
from anyrig.monitor.prometheus import prometheus_text
from anyrig.server import metrics
from anyrig.server.routes.health import Gpus, state_of
from anyrig.server.state import ServerState
from anyrig.work.live import LANES

log = logging.getLogger(__name__)
TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATUSES: tuple[metrics.Status, ...] = ("ready", "busy", "loading", "hangs", "dead")
_MACHINES = ("ready", "busy", "loading", "draining", "lost", "refused")
Family = GaugeMetricFamily | CounterMetricFamily


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["metrics"])
    aside = anyio.CapacityLimiter(2)
    registry = CollectorRegistry()
    registry.register(Now(server))

    @routes.get(
        "/metrics", summary="Figures for Prometheus", response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"example": "anyrig_ready 1.0\n"}}}},
    )  # fmt: skip
    async def metrics() -> Response:
        """Requests, queues, batches, audio, memory, jobs, and every device's figures."""
        text = await to_thread.run_sync(lambda: _text(server, registry), limiter=aside)
        return Response(text, headers={"Content-Type": TYPE})

    @routes.get("/metrics/gpu", response_model=Gpus, summary="Every device, now and lately")
    async def gpu() -> Any:
        """The last samples, and those of the last minutes for charts."""

        def told() -> JSONResponse:
            return JSONResponse(
                {"now": server.machine.now(), "history": list(server.machine.history())}
            )

        return await to_thread.run_sync(told, limiter=aside)

    return routes


def _text(server: ServerState, registry: CollectorRegistry) -> bytes:
    server.metrics.observe(server.models.loaded_models())
    snapshot = server.machine.snapshot()
    devices = prometheus_text(snapshot).encode() if snapshot is not None else b""
    return generate_latest(server.metrics.registry) + generate_latest(registry) + devices


class Now(Collector):
    """What is, at the moment of asking."""

    def __init__(self, server: ServerState) -> None:
        self._server = server

    def describe(self) -> Iterable[Family]:
        """Nothing is asked when it is registered."""
        return []

    def collect(self) -> Iterator[Family]:
        """Every figure that is read rather than counted."""
        server = self._server
        yield _gauge("ready", "1 while the server is ready.", state_of(server) == "ready")
        yield from self._models()
        yield from self._workers()
        yield from self._keeper()
        yield from self._jobs()
        yield from self._cluster()

    def _models(self) -> Iterator[Family]:
        loaded = GaugeMetricFamily("anyrig_models_loaded", "Models that are loaded.", labels=[])
        queue = GaugeMetricFamily("anyrig_queue", "Items that wait.", labels=["model", "lane"])
        running = GaugeMetricFamily("anyrig_running", "Items at work.", labels=["model"])
        idle = GaugeMetricFamily("anyrig_model_idle_seconds", "Not asked for.", labels=["model"])
        kept = self._server.models.loaded_models()
        loaded.add_metric([], len(kept))
        for one in kept:
            idle.add_metric([one.name], one.idle_s)
            live = find_queue(one.model)
            if live is None:
                continue
            running.add_metric([one.name], live.running)
            for lane in LANES:
                queue.add_metric([one.name, lane], live.waiting(lane))
        yield from (loaded, queue, running, idle)

    def _workers(self) -> Iterator[Family]:
        counts: dict[tuple[str, str], int] = {}
        for worker in metrics.list_workers(self._server):
            for status in _STATUSES:
                counts.setdefault((worker.model, status), 0)
            counts[worker.model, worker.status] += 1
        found = GaugeMetricFamily("anyrig_workers", "Processes.", labels=["model", "status"])
        for (model, status_), count in counts.items():
            found.add_metric([model, status_], count)
        yield found

    def _keeper(self) -> Iterator[Family]:
        tally = self._server.models.stats
        yield _counter("model_loads", "Models that were loaded.", tally.loads)
        yield _counter("model_load_seconds", "Time that took.", tally.load_s)
        yield _counter("model_load_failures", "Loads that failed.", tally.failures)
        yield _counter("model_load_out_of_memory", "Loads without room.", tally.out_of_memory)
        found = CounterMetricFamily("anyrig_model_unloads", "Models unloaded.", labels=["reason"])
        for reason, count in tally.evictions.items():
            found.add_metric([reason], count)
        yield found

    def _jobs(self) -> Iterator[Family]:
        found = GaugeMetricFamily("anyrig_jobs", "Jobs by state.", labels=["state"])
        try:
            counts = self._server.jobs.list_page(0).counts
        except Exception:
            # Figures of everything else are wanted most when one thing is broken.
            log.exception("jobs cannot be counted")
            return
        for state, count in counts.items():
            found.add_metric([state], count)
        yield found

    def _cluster(self) -> Iterator[Family]:
        """Nothing of it without `--cluster`. While the broker is away, who was there last."""
        up = GaugeMetricFamily("anyrig_cluster_up", "1 while the broker answers.", labels=[])
        found = GaugeMetricFamily("anyrig_cluster_workers", "Of the cluster.", labels=["status"])
        if self._server.cluster is not None:
            now = self._server.cluster.now()
            up.add_metric([], float(now["state"] == "ready"))
            counts = dict.fromkeys(_MACHINES, 0)
            for row in now["workers"]:
                status = row["status"]
                told = row["trouble"] and status not in ("lost", "draining")
                # It is there, and of another version; what it says of itself is not ours to trust.
                counts["refused" if told or status not in counts else status] += 1
            for status, count in counts.items():
                found.add_metric([status], count)
        yield from (up, found)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"anyrig_{name}", text, value=float(value))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"anyrig_{name}", text, value=float(value))
