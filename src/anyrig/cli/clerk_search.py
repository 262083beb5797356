"""A clerk's tasks on an index: search it, and find what is most like a text or a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyrig.app.search import FilterOptions, answer_to_json, build_filters
from anyrig.cli import clerk_models
from anyrig.cli.clerk import ClerkRoom
from anyrig.cli.clerk_models import Given
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.index.search import Answer, Searcher
    from anyrig.documents.model import Model
    from anyrig.documents.protocol import Use, Vectors

    Array = NDArray[np.float32]

_PASSAGES = 64
"""About so many of a source, spread over it, stand for the whole when likeness is asked for."""


def search(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Passages of an index that answer a question.

    Arguments are `index`, `question`, `mode`, `limit`, `per_file`, `all`, `least`, and filters:
    `folders`, `types`, `languages`, `after`, `before`.
    """
    from anyrig.documents.index.near import floor

    searcher = opened(room, arguments["index"])
    mode = arguments["mode"]
    vectors = _vectors(room, searcher) if mode != "keywords" else None
    least = arguments.get("least")
    if arguments["all"] or vectors is None:
        least = None
    elif least is None:
        least = floor(vectors.model.name)
    answer = searcher.search(
        arguments["question"], vectors, mode=mode, limit=arguments["limit"],
        filters=_filters(searcher, arguments), per_file=arguments["per_file"], least=least,
    )  # fmt: skip
    return _told(answer)


def similar(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is most like a text or a file: in an index, or among other texts and files.

    Arguments are `to` (a source), `limit`, and `index` with filters, or `sources` and `model`.
    """
    (to,) = clerk_models.given({"sources": [arguments["to"]]})
    if arguments.get("sources"):
        return _among(room, to, arguments)
    searcher = opened(room, arguments["index"])
    vectors = _vectors(room, searcher)
    text, mean = _mean(room, to, vectors, arguments)
    answer = searcher.search(
        text[:2000], _Told(vectors.model, mean), mode="vectors", limit=arguments["limit"],
        filters=_filters(searcher, arguments), per_file=True,
    )  # fmt: skip
    return _told(answer)


def opened(room: ClerkRoom, name: str) -> Searcher:
    """An index that is kept open: it sees what is indexed meanwhile."""
    from anyrig.documents.index.database import path_of
    from anyrig.documents.index.search import Searcher

    path = path_of(room.context.folders.indexes, name)
    # Another file of that name may have taken the place of one that somebody else deleted.
    version = str(path.stat().st_ino if path.is_file() else 0)
    return room.keep(f"index {name}", lambda: Searcher(path), version=version)


def closed(room: ClerkRoom, name: str) -> None:
    """Let go of an index, so that nothing of it is open."""
    room.let_go(f"index {name}")


def _vectors(room: ClerkRoom, searcher: Searcher) -> Vectors:
    """Of the model that the index was made with."""
    return clerk_models.vectors(room, searcher.model, trusted=True)


def _filters(searcher: Searcher, arguments: Mapping[str, Any]) -> Any:
    options = FilterOptions(
        folder=arguments.get("folders") or (), type=arguments.get("types") or (),
        language=arguments.get("languages") or (),
        after=arguments.get("after") or "", before=arguments.get("before") or "",
    )  # fmt: skip
    return build_filters(options, lambda: searcher.snapshot(vectors=False))


def _told(answer: Answer) -> dict[str, Any]:
    return {**answer_to_json(answer), "notes": list(answer.notes)}


# -- likeness --------------------------------------------------------------------------------------


class _Told:
    """Vectors that are known already: a file's, where a search asks for that of a question."""

    def __init__(self, model: Model, vector: Array) -> None:
        self.model, self._vector = model, vector

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[Array]:
        """The same for each text."""
        for _ in texts:
            yield self._vector

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> Array:
        """The same in one matrix."""
        import numpy as np

        return np.stack(list(self.embed(texts, use=use)))


def _mean(
    room: ClerkRoom, source: Given, vectors: Vectors, arguments: Mapping[str, Any]
) -> tuple[str, Array]:
    """A source's text, and the mean of its passages' vectors."""
    (found,) = _means(room, [source], vectors, arguments)
    if isinstance(found, InvalidInputError):
        raise found
    return found


def _means(
    room: ClerkRoom, sources: Sequence[Given], vectors: Vectors, arguments: Mapping[str, Any]
) -> Iterator[tuple[str, Array] | InvalidInputError]:
    import numpy as np

    from anyrig.documents.classify.decide import pooled
    from anyrig.documents.passages import passages
    from anyrig.documents.reading import Unread, textless

    for source, paged in zip(
        sources, clerk_models.read(room, sources, arguments.get("ocr")), strict=True
    ):
        if isinstance(paged, Unread):
            yield InvalidInputError(source.told(paged.message), hint=source.told(paged.hint))
            continue
        found = list(passages(paged, language=paged.language[:2] or "en"))
        if not found:
            error = textless(paged)
            yield InvalidInputError(source.told(error.message), hint=error.hint)
            continue
        found = found[:: 1 + len(found) // _PASSAGES]
        matrix = vectors.matrix([one.text for one in found])
        mean = pooled(matrix.astype(np.float64), [len(one.text) for one in found])
        yield paged.text, mean.astype(np.float32)


def _among(room: ClerkRoom, to: Given, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Other sources by their likeness, the nearest first; those that cannot be read are named."""
    sources = clerk_models.given(arguments)
    vectors = clerk_models.vectors(
        room, arguments.get("model", ""), [one.text for one in (to, *sources) if one.text]
    )
    _, wanted = _mean(room, to, vectors, arguments)
    rows, failed = [], []
    for number, found in enumerate(_means(room, sources, vectors, arguments)):
        if isinstance(found, InvalidInputError):
            failed.append({"number": number, "error": found.message, "hint": found.hint})
            continue
        rows.append({"number": number, "similarity": round(float(found[1] @ wanted), 4)})
    rows.sort(key=lambda row: -row["similarity"])
    return {"model": vectors.model.name, "similar": rows[: arguments["limit"]], "failed": failed}
