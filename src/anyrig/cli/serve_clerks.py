"""The document workers of the server."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from anyrig.app.compute import ComputeOptions
from anyrig.app.document_worker import DocumentWorkers

if TYPE_CHECKING:
    from anyrig.app.models import ModelCache
    from anyrig.cli.context import Context


def made(context: Context, stack: ExitStack, models: ModelCache) -> DocumentWorkers:
    """The part."""
    context.rig.models = models
    return stack.enter_context(DocumentWorkers(context.rig, context.request(ComputeOptions)))
