"""The machine over HTTP: its devices, which is used, what was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from fastapi import APIRouter

from anyrig.server.errors import problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.routes.rig import Bench, DeviceChosen, Devices, Used
from anyrig.server.state import ServerState

T = TypeVar("T")


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["rig"], route_class=JsonRoute)
    aside = anyio.CapacityLimiter(2)
    # One for itself: others' waits in the common one would hold up a page that asks each second.

    async def asked(ask: Callable[[], T]) -> T:
        return await to_thread.run_sync(ask, limiter=aside)

    @routes.get("/devices", response_model=Devices, summary="Every device, and which is used")
    async def devices() -> Any:
        """What each device is and does, why it is not used, and the command that mends it."""
        return await asked(server.machine.devices)

    @routes.put(
        "/devices/chosen", response_model=Used, summary="Use a device from now on",
        responses=problem_responses(404),
    )  # fmt: skip
    async def choose(chosen: DeviceChosen) -> Any:
        """As `anyrig use`: kept for later starts as well. Models on another device are loaded anew
        when they are next asked for.
        """
        return await asked(lambda: server.machine.use(chosen.device))

    @routes.get("/bench", response_model=Bench, summary="What was measured on this machine")
    async def bench() -> Any:
        """Figures of `anyrig bench`, as long as driver and libraries are those it ran with."""
        return {"figures": await asked(server.machine.figures)}

    return routes
