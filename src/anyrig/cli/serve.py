"""`anyrig serve`: everything over HTTP, and a page."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, fleet, serve_door
from anyrig.cli.context import Context
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from anyrig.app.models import ModelCache
    from anyrig.app.rig import Rig
    from anyrig.app.settings import ServerSettings
    from anyrig.server.state import ServerState

log = logging.getLogger(__name__)
HELP = """Serve everything over HTTP, with a page in the browser: speech, books, documents, jobs and
training. It listens on this machine alone unless --host says otherwise; then callers need a key
(`anyrig keys add`). Ctrl+C ends it; jobs that run go on at the next start."""
_END_S = 3
"""How long answers that are being sent may take after the end was asked for."""
_LAST_S = 12.0
"""By then the process has ended, whatever its workers do."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--host", metavar="ADDRESS", help="where it listens; this machine alone")
    parser.add_argument("--port", type=int, metavar="N", help="3000 when not given; 0 any free one")
    parser.add_argument(
        "--preload", metavar="NAMES", nargs="?", const="speech,embeddings", default="",
        help="load models before saying that it is ready: speech,embeddings when no names are "
        "given; of speech, embeddings, documents, entities, summarise, classify",
    )  # fmt: skip
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument(
        "--insecure", action="store_true",
        help="let anybody in who can reach the address, without a key",
    )  # fmt: skip
    keys.add_argument(
        "--require-keys", action="store_true", help="ask for a key on this machine too"
    )
    parser.add_argument("--no-page", action="store_true", help="HTTP alone, without the page")
    parser.add_argument("--no-cache", action="store_true", help="neither take nor keep results")
    parser.add_argument("--no-jobs", action="store_true", help="queue jobs, and work on none")
    parser.add_argument(
        "--log-json", action="store_true", help="log a line of JSON for each request and event"
    )
    parser.add_argument("--machine", help=argparse.SUPPRESS)  # a recorded one: how its page looks
    fleet.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    from anyrig.backends.memory import limit_arenas
    from anyrig.cli import serve_log

    limit_arenas()  # before there are threads
    context = Context(options)
    context.choose()  # a device that is not there is told of now, not by the first request
    settings = context.loaded.settings.server
    host = options.host or settings.host
    port = settings.port if options.port is None else options.port
    if not 0 <= port < 65536:
        raise InvalidInputError(
            f"--port {port}", hint="A port goes from 0 to 65535; 0 takes a free one."
        )
    options.preload = _preloads(options.preload)
    inside = in_container(context.environment)
    log.configure_log(
        as_json=options.log_json or inside, verbose=options.verbose, texts=settings.log_texts
    )
    with _ends_well(), ExitStack() as stack:
        door = stack.enter_context(serve_door.bound(host, port))
        server = build(context, stack, local=serve_door.is_local(host))
        if not server.open:
            from anyrig.cli.serve_keys import demand

            demand(context, server.keys, host=_where(settings, host), container=inside)
        bound = door.getsockname()
        server.address = (host, bound[1])
        server.insecure = bool(options.insecure)
        if options.insecure and not serve_door.is_local(host):
            log.warning("anybody who can reach %s may use this server, read what was sent to it, "
                        "and delete it (--insecure)", host)  # fmt: skip
        from anyrig.server.app import create_app

        serve_log.log_start(context, server)
        app = create_app(server, page=not options.no_page)
        _serve(app, door, lambda: _say(context, host, bound[1]))
    return 0


def build(context: Context, stack: ExitStack, *, local: bool) -> ServerState:
    """All server of a server; what each needs is opened on the stack."""
    from anyrig.app.compute import ComputeOptions
    from anyrig.app.document_worker import DocumentWorkers
    from anyrig.app.models import ModelCache
    from anyrig.options import list_options
    from anyrig.server.metrics import Metrics
    from anyrig.server.state import ServerState

    settings = context.loaded.settings.server
    folders = context.folders
    folders.server.mkdir(parents=True, exist_ok=True)
    models = ModelCache(idle_s=settings.idle_s)
    stack.callback(models.close)
    from anyrig.app.live_embedding import LiveEmbedding
    from anyrig.app.live_speech import open_live_speech
    from anyrig.cli import serve_cluster, serve_jobs

    rig, given = _open_rig(context, models), _given(context)
    use_cache = not context.options.no_cache
    speech = stack.enter_context(open_live_speech(rig, given, use_cache=use_cache))
    made: dict[str, Any] = {"speech": speech, "embedding": LiveEmbedding(rig, given)}
    compute_options = {n: v for n, v in given.items() if n in list_options(ComputeOptions)}
    made["clerks"] = stack.enter_context(
        DocumentWorkers(rig, rig.request(ComputeOptions, **compute_options))
    )
    for name in ("keys", "uploads", "rig", "cluster"):
        module = importlib.import_module(f"anyrig.cli.serve_{name}")
        made[name] = module.made(context, stack, models)
    options = context.options
    # Other names than its own lead here by way of a proxy: then who calls it by its own may come
    # by way of the proxy as well.
    proxied = settings.behind_proxy or bool(settings.hosts.strip())
    return ServerState(
        settings=settings,
        data=folders.server,
        jobs=stack.enter_context(serve_cluster.jobs_of(context)),
        figures=Metrics(),
        models=models,
        open=bool(options.insecure) or (local and not options.require_keys and not proxied),
        places={"indexes": folders.indexes, "classifiers": folders.classifiers,
                "runs": folders.runs},
        runner=serve_jobs.made(context),
        preload=[word for word in _preloads(options.preload).split(",") if word],
        **made,
    )  # fmt: skip


def _open_rig(context: Context, models: ModelCache) -> Rig:
    """The application, with the models that all requests share; warnings go to the log."""
    from anyrig.app.rig import Rig

    machine = context.machine if context.record is not None else None
    rig = Rig(
        config=getattr(context.options, "config", None), environment=context.environment,
        machine=machine, models=models,
    )  # fmt: skip
    rig.machine = context.machine  # not discovered again
    context.rig = rig
    return rig


def _given(context: Context) -> dict[str, Any]:
    """The flags of the server that are options of every request."""
    from anyrig.app.cluster import ClusterOptions
    from anyrig.app.compute import ComputeOptions
    from anyrig.options import list_options

    names = [*list_options(ComputeOptions), *list_options(ClusterOptions), "no_cache"]
    found = {name: getattr(context.options, name, None) for name in names}
    return {name: value for name, value in found.items() if value not in (None, "", False)}


def _where(settings: ServerSettings, host: str) -> str:
    """The address it listens on, with what makes it ask for keys there."""
    if not serve_door.is_local(host):
        return host
    if settings.behind_proxy:
        return f"{host} behind a proxy (server.behind_proxy)"
    return f"{host} under other names (server.hosts)" if settings.hosts.strip() else host


def _preloads(words: str) -> str:
    """Names of what is loaded at the start; one that stands for nothing is refused before that."""
    from anyrig.server.state import PRELOADS

    found = [word.strip() for word in words.split(",") if word.strip()]
    for word in found:
        if word not in PRELOADS:
            raise InvalidInputError(f"--preload {word}", hint=f"There are {', '.join(PRELOADS)}.")
    return ",".join(found)


def in_container(environment: Any) -> bool:
    """Whether this runs in a container, where nobody sits at a terminal."""
    said = environment.get("ANYRIG_CONTAINER", "").lower()
    return said not in ("0", "no", "false") if said else Path("/.dockerenv").exists()


def _say(context: Context, host: str, port: int) -> None:
    if context.options.json:
        found = serve_door.urls(host, port)
        told = {"event": "listening", "url": found[0], "host": host, "port": port, "urls": found}
        print(json.dumps(told))
    else:
        print(serve_door.said(host, port))
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()


def _serve(app: FastAPI, door: socket.socket, listening: Callable[[], None]) -> None:
    """Answer until a signal comes."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                listening()

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            _end_at_last()  # also where something keeps the event loop from ending
            super().handle_exit(sig, frame)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.server.is_ending = True  # streams without end look here
            await super().shutdown(sockets)

    Server(_config(app)).run([door])


def _config(app: FastAPI) -> uvicorn.Config:
    import uvicorn

    try:
        from anyrig.server.protocol import LimitedHttpProtocol

        reader: Any = LimitedHttpProtocol
    except ImportError:  # a bare uvicorn: its own reader bounds heads too
        reader = "h11"
    return uvicorn.Config(
        app,
        http=reader,
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=512,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_END_S,
        ws_max_size=1 << 20,
        ws_max_queue=16,
        ws_per_message_deflate=False,  # sound does not shrink, and a bomb cannot unfold
        h11_max_incomplete_event_size=64 * 1024,
    )


@contextlib.contextmanager
def _ends_well() -> Iterator[None]:
    """SIGTERM and Ctrl+C end the server by way of everything it has to close; twice, at once.

    While it serves, uvicorn takes the signals, and raises them again when it is done: so they
    arrive here as if it had not been there.
    """
    asked = False  # no event: a handler that is called within itself would wait for its lock

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        _end_at_last()
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_last() -> None:
    """End the process some seconds from now, should a worker keep it from ending by itself."""
    timer = threading.Timer(_LAST_S, os._exit, args=(0,))
    timer.daemon = True
    timer.start()
