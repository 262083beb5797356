"""The result cache for commands that are not yet on the application layer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from anyrig.app.cache import open_cache
from anyrig.cli.context import Context

if TYPE_CHECKING:
    from anyrig.storage.cache import Cache


def keeping(context: Context) -> AbstractContextManager[Cache | None]:
    return open_cache(context.rig)
