"""/metrics: for Prometheus, and JSON of every device with its history."""

from __future__ import annotations

from typing import Any

import anyio
from anyio import to_thread
from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, Field

from anyrig.server.metrics import format_metrics, register_gauges
from anyrig.server.state import ServerState

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Gpus(BaseModel):
    """Samples of every device."""

    now: dict[str, Any] = Field(description="The last sample of each device and of the host.")
    history: list[dict[str, Any]] = Field(description="Of the last minutes, the oldest first.")


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["metrics"])
    limiter = anyio.CapacityLimiter(2)
    gauges = register_gauges(server)

    @routes.get(
        "/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"example": "anyrig_ready 1.0\n"}}}},
    )  # fmt: skip
    async def prometheus() -> Response:
        """Requests, queues, batches, audio, memory, jobs, and every device."""
        text = await to_thread.run_sync(format_metrics, server, gauges, limiter=limiter)
        return Response(text, headers={"Content-Type": _CONTENT_TYPE})

    @routes.get("/metrics/gpu", response_model=Gpus, summary="Samples of every device")
    async def gpu() -> Any:
        """The last samples, and those of the last minutes for charts."""

        def build() -> JSONResponse:
            machine = server.machine
            return JSONResponse({"now": machine.now(), "history": list(machine.history())})

        return await to_thread.run_sync(build, limiter=limiter)

    return routes
