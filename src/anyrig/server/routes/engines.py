"""/engines: the speech engines, what each takes to install, and installing one."""

from __future__ import annotations

from typing import Any, Literal

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import hide_folders
from anyrig.app.engine_setup import EngineInstaller, InstallProgress, plan_install
from anyrig.app.engines import EngineStatus
from anyrig.errors import InvalidInputError, render_json
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.routes.voices import EngineName
from anyrig.server.state import ServerState
from anyrig.speech.choose import TEST_ENGINE, describe_restriction


class EngineInstallation(BaseModel):
    """The last installation of an engine since the server was started."""

    state: Literal["running", "done", "failed"]
    done: int = Field(description="Bytes, or steps, that are done.")
    total: int = Field(description="0 if unknown.")
    detail: str
    message: str = Field(description="Why it failed.")
    hint: str


class SpeechEngineRow(BaseModel):
    """A speech engine."""

    name: str
    summary: str
    languages: list[str]
    licence: str
    licence_notice: str = Field(
        description="What to read before it is used, where its licence restricts the use."
    )
    ready: bool
    problem: str | None = Field(description="What it lacks.")
    command: str = Field(description="Installs it, on the machine of the server; may be empty.")
    size_bytes: int | None = Field(description="About what it takes on disk; null if unknown.")
    can_install: bool = Field(description="Whether POST /engines/{engine}/install can do it.")
    installation: EngineInstallation | None


class SpeechEngineList(BaseModel):
    engines: list[SpeechEngineRow]


class InstallEngine(BaseModel):
    """An engine to install."""

    model_config = ConfigDict(extra="forbid")
    agree: bool = Field(False, description="Agrees to the licence of its weights.", examples=[True])


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["speech"], route_class=JsonRoute)
    installer = EngineInstaller(server.rig)
    limiter = anyio.CapacityLimiter(2)

    def describe() -> list[SpeechEngineRow]:
        statuses = [one for one in server.speech.list_engines() if one.info.name != TEST_ENGINE]
        return [_describe(server, installer, one) for one in statuses]

    @routes.get("/engines", response_model=SpeechEngineList, summary="List speech engines")
    async def list_engines(request: Request) -> Any:
        """Those that are ready, and what the others take to install."""
        rows = [one.model_dump() for one in await to_thread.run_sync(describe, limiter=limiter)]
        return {"engines": hide_folders(server.rig, get_client(request), rows)}

    @routes.post(
        "/engines/{engine}/install", status_code=202, response_model=EngineInstallation,
        summary="Install a speech engine", responses=problem_responses(400, 404, 409),
    )  # fmt: skip
    async def install(request: Request, engine: EngineName, body: InstallEngine) -> Any:
        """It goes on in the background: `GET /engines` shows how far it is."""
        names = [one.name for one in await to_thread.run_sync(describe, limiter=limiter)]
        if engine not in names:
            raise Problem(404, "no such engine", hint="GET /engines lists them.")

        def start() -> InstallProgress:
            return installer.start(engine, agreed=body.agree)

        try:
            return render_json(vars(await to_thread.run_sync(start, limiter=limiter)), "http")
        except InvalidInputError as error:
            raise Problem(409, error.message, hint=error.hint) from error

    return routes


def _describe(
    server: ServerState, installer: EngineInstaller, status: EngineStatus
) -> SpeechEngineRow:
    info, plan = status.info, plan_install(server.rig, status)
    progress = installer.get_progress(info.name)
    return SpeechEngineRow(
        name=info.name,
        summary=info.summary,
        languages=list(status.languages or info.languages),
        licence=info.weights_licence or info.code_licence,
        licence_notice=describe_restriction(info),
        ready=status.is_ready,
        problem=status.problem or None,
        command=plan.command,
        size_bytes=plan.size_bytes or None,
        can_install=not status.is_ready and plan.can_start,
        installation=EngineInstallation(**vars(progress)) if progress else None,
    )
