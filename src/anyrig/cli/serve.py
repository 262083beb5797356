"""`anyrig serve`: everything over HTTP, and a page."""

from __future__ import annotations

import argparse
import importlib
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute
from anyrig.cli.context import Context
from anyrig.errors import BadInput

if TYPE_CHECKING:
    from anyrig.server.parts import Parts

_LOCAL = ("127.0.0.1", "::1", "localhost")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--host", metavar="ADDRESS", help="where it listens; this machine alone")
    parser.add_argument("--port", type=int, metavar="N", help="3000 when not given")
    parser.add_argument(
        "--preload", metavar="NAMES", nargs="?", const="speech,embeddings", default="",
        help="load models before saying that it is ready: speech,embeddings",
    )  # fmt: skip
    parser.add_argument(
        "--insecure", action="store_true",
        help="let anybody in who can reach the address, without a key",
    )  # fmt: skip
    parser.add_argument("--no-page", action="store_true", help="HTTP alone, without the page")
    parser.add_argument("--no-jobs", action="store_true", help="queue jobs, and work on none")
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    import uvicorn

    from anyrig.server.app import create_app

    context = Context(options)
    settings = context.loaded.settings.server
    host, port = (
        options.host or settings.host,
        settings.port if options.port is None else options.port,
    )
    if not 0 <= port < 65536:
        raise BadInput(f"--port {port}", hint="A port goes from 0 to 65535; 0 takes a free one.")
    with ExitStack() as stack:
        parts = build(context, stack, local=host in _LOCAL)
        app = create_app(parts, page=not options.no_page)
        uvicorn.run(app, host=host, port=port, log_level="warning")
    return 0


def build(context: Context, stack: ExitStack, *, local: bool) -> Parts:
    """All parts of a server; what each needs is opened on the stack."""
    from anyrig.server.figures import Figures
    from anyrig.server.keeper import Keeper
    from anyrig.server.parts import Parts

    settings = context.loaded.settings.server
    folders = context.folders
    folders.server.mkdir(parents=True, exist_ok=True)
    keeper = Keeper(settings.idle_s)
    stack.callback(keeper.close)
    from anyrig.cli.jobs import open_jobs

    made: dict[str, Any] = {}
    for name in ("keys", "uploads", "rig", "speech", "embedding", "clerks"):
        module = importlib.import_module(f"anyrig.cli.serve_{name}")
        made[name] = module.made(context, stack, keeper)
    return Parts(
        settings=settings,
        data=folders.server,
        jobs=stack.enter_context(open_jobs(context)),
        figures=Figures(),
        keeper=keeper,
        open=local or bool(context.options.insecure),
        places={"indexes": folders.indexes, "classifiers": folders.classifiers,
                "runs": folders.runs},
        preload=[word for word in context.options.preload.split(",") if word],
        **made,
    )  # fmt: skip
