"""The document workers of the server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import ComputeOptions
from anyrig.app.document_worker import DocumentWorkers

if TYPE_CHECKING:
    from anyrig.cli.context import Context
    from anyrig.server.keeper import Keeper


class _KeeperModels:
    """The keeper as a model cache, until it is one."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.discard = keeper.drop

    def borrow(
        self, name: str, load: Callable[[], AbstractContextManager[Any]]
    ) -> AbstractContextManager[Any]:
        return self._keeper.lend(name, lambda: load().__enter__())


def made(context: Context, stack: ExitStack, keeper: Keeper) -> DocumentWorkers:
    """The part."""
    models: Any = _KeeperModels(keeper)
    context.rig.models = models
    return stack.enter_context(DocumentWorkers(context.rig, context.request(ComputeOptions)))
