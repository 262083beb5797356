"""Kept vectors and pages of removed texts, dropped for good, without loading a model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from anyrig.cli import embedding
from anyrig.cli.context import Context
from anyrig.cli.show import print_warning
from anyrig.errors import AnyrigError

if TYPE_CHECKING:
    from anyrig.documents.embed import Embedder
    from anyrig.documents.index.forget import Forget
    from anyrig.documents.model import Model

_PRECISIONS = ("fp32", "half", "int8")


class _As(NamedTuple):
    """How vectors may have been made: what names them in the store."""

    model: Model
    precision: str
    long: str
    deterministic: bool


def forgetting(context: Context, path: Path, stack: ExitStack) -> Forget:
    """Drops the vectors and pages that are kept of texts, in whatever way they were made."""
    from anyrig.cli.index import known_model
    from anyrig.cli.share import open_results
    from anyrig.documents.cache.shelf import Shelf
    from anyrig.documents.ocr.forget import KIND, pages_of
    from anyrig.storage.cache import ResultCache

    store = open_results(context)
    stack.callback(store.close)
    near = store if isinstance(store, ResultCache) else store.local

    def forget(texts: Sequence[str]) -> int:
        if not texts:
            return 0
        pages = (
            list(pages_of(texts, near.iter_results(KIND))) if isinstance(near, ResultCache) else []
        )
        count = sum(store.delete(key) for key in pages)
        if count and isinstance(near, ResultCache):
            near.scrub()
        try:
            model = known_model(context, path)
        except AnyrigError as error:
            print_warning(
                f"kept vectors cannot be named, as the model is gone ({error.message}); "
                "`anyrig cache prune --kind embedding` drops all of them"
            )
            return count
        for ways in product(_PRECISIONS, ("windows", "cut"), (False, True)):
            made = cast("Embedder", _As(model, *ways))
            shelf = Shelf(store, embedding.marks(made), model.dimension)
            count += shelf.forget(texts)
        if isinstance(near, ResultCache):
            near.scrub()
        return count

    return forget
