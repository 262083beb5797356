"""Where the takes of a book are kept while it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.show import print_warning
from anyrig.errors import StorageError

if TYPE_CHECKING:
    from anyrig.services.book import Order
    from anyrig.storage.cache import ResultCache
    from anyrig.storage.redis import LayeredCache


@contextmanager
def keeping(context: Context, order: Order) -> Iterator[ResultCache | LayeredCache]:
    """The user's store; where that cannot be opened, one beside the book that goes with the run."""
    from anyrig.cli.share import open_results

    try:
        store = open_results(context)
        store.has({order.job})  # it opens when it is asked first
    except (StorageError, OSError) as error:
        said = error.message if isinstance(error, StorageError) else str(error)
        print_warning(f"what is made is kept beside the book until it is done: {said}")
        with _beside(order) as own:
            yield own
        return
    with store:
        yield store


@contextmanager
def _beside(order: Order) -> Iterator[ResultCache]:
    import shutil

    from anyrig.storage.cache import ResultCache

    folder = order.output.absolute().parent / f".{order.output.name}.anyrig"
    with ResultCache(folder / "takes.db") as store:
        yield store
    shutil.rmtree(folder, ignore_errors=True)  # a run that fails leaves it for the next
