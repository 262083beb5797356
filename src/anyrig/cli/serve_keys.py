"""Not there yet."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from anyrig.cli.context import Context
from anyrig.server.keeper import Keeper


def made(context: Context, stack: ExitStack, keeper: Keeper) -> Any:
    """The part."""
    return None
