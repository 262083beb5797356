"""The cluster over HTTP: its workers, and letting them leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Path

from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.routes.cluster import Cluster, Draining
from anyrig.server.state import Cluster as Joined
from anyrig.server.state import ServerState

Name = Annotated[str, Path(min_length=1, max_length=200, description="Of the worker.")]


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["cluster"], route_class=JsonRoute)
    aside = anyio.CapacityLimiter(2)

    async def asked(ask: Callable[[Joined], Mapping[str, Any]]) -> dict[str, Any]:
        cluster = server.cluster
        if cluster is None:
            raise Problem(
                404, "this server spreads its work over no cluster",
                hint="Start it with `anyrig serve --cluster URL`.",
            )  # fmt: skip
        return {"joined": True, **await to_thread.run_sync(lambda: ask(cluster), limiter=aside)}

    @routes.get("/cluster", response_model=Cluster, summary="The workers of the cluster")
    async def cluster() -> Any:
        """As they were within the last seconds; those that are lost too."""
        if server.cluster is None:
            return {"joined": False}
        return {"joined": True, **server.cluster.now()}

    @routes.put(
        "/cluster/workers/{name}", response_model=Cluster, summary="Let a worker leave, or stay",
        responses=problem_responses(404),
    )  # fmt: skip
    async def drain(name: Name, wanted: Draining) -> Any:
        """A worker that is drained finishes what it has, gets no more, and leaves."""
        return await asked(lambda found: found.drain(name, on=wanted.drain))

    @routes.delete(
        "/cluster/workers/{name}", response_model=Cluster, summary="Forget a lost worker",
        responses=problem_responses(404, 409),
    )  # fmt: skip
    async def forget(name: Name) -> Any:
        """Take the name of a worker off the list that gives no sign any more."""
        return await asked(lambda found: found.forget(name))

    return routes
