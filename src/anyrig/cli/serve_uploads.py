"""The server's part that keeps files which people sent."""

from __future__ import annotations

from contextlib import ExitStack

from anyrig.app.models import ModelCache
from anyrig.cli.context import Context
from anyrig.server.uploads import Uploads


def made(context: Context, stack: ExitStack, models: ModelCache) -> Uploads:
    """The part."""
    settings = context.loaded.settings.server
    return Uploads(
        context.folders.server / "uploads",
        most_bytes=int(settings.upload_mb * 1e6),
        most_files=settings.upload_files,
        most_total=int(settings.upload_total_mb * 1e6),
    )
