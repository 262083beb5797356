"""Questions to an index: by meaning, by words, or both."""

from __future__ import annotations

import datetime
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.app.documents import FileOptions, name_texts, read_sources
from anyrig.app.embedding import (
    EmbeddingOptions,
    borrow_embedder,
    detect_languages,
    find_model,
    open_vectors,
)
from anyrig.app.index import IndexOptions, find_index_file, find_index_model, open_searcher
from anyrig.app.uploads import get_display_name
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import Request, option
from anyrig.text.language_names import language_code

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.app.rig import Rig
    from anyrig.documents.index.search import FileRow, Filters, Hit, HitPlace, SearchResult
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.protocol import Use, Vectors
    from anyrig.documents.reading import TextSource

    Vector = NDArray[np.float32]

SearchMode = Literal["hybrid", "vectors", "keywords"]
_MAX_QUESTION_CHARACTERS = 10_000
_SIMILAR_PASSAGES = 64
"""About so many passages of a document, spread over it, stand for the whole."""
_SPAN_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}


@dataclass(frozen=True, kw_only=True)
class FilterOptions(Request):
    """Which files."""

    folder: tuple[Path, ...] = option((), "only files in this folder", metavar="PATH")
    type: tuple[str, ...] = option(
        (), "only files of these types, such as pdf,docx,eml,picture", metavar="LIST"
    )
    language: tuple[str, ...] = option(
        (), "only files in these languages, such as en,es or Spanish", metavar="LIST"
    )
    after: str = option("", "only files changed on this day or later", metavar="DATE")
    before: str = option("", "only files changed before this day", metavar="DATE")


@dataclass(frozen=True, kw_only=True)
class SearchRequest(FilterOptions, IndexOptions, EmbeddingOptions):
    """Search."""

    question: str = option(help="what to search for", flag=False)
    mode: SearchMode = option("hybrid", "by vectors and keywords, by vectors, or by keywords")
    limit: int = option(10, "maximum number of passages", ge=1, le=1000, metavar="N")
    files: bool = option(False, "only the best passage of each file")
    all: bool = option(False, "also passages below the similarity threshold")
    min: float | None = option(
        None, "minimum similarity of passages without a word of the question", ge=0, le=1
    )
    model: str = option("", "embedding model; default: the index's own", metavar="NAME")


def search(rig: Rig, request: SearchRequest, on_event: OnEvent) -> SearchResult:
    """The passages of an index that answer a question best."""
    from anyrig.documents.index.search import MIN_SIMILARITY

    if not request.question.strip():
        raise InvalidInputError("nothing to search for", hint="Give some words.")
    path = find_index_file(rig, request.index)
    by_meaning = request.mode != "keywords"
    with ExitStack() as stack:
        searcher = stack.enter_context(open_searcher(rig, request.index))
        filters = build_filters(request, searcher.list_files)
        vectors, min_similarity = None, None
        if by_meaning:
            # A question is short: another process, or a GPU, takes longer to start.
            options = replace(request, device=request.device or "cpu")
            model = find_index_model(rig, options, path, on_event)
            size = min(len(request.question), _MAX_QUESTION_CHARACTERS)
            vectors = stack.enter_context(
                borrow_embedder(rig, options, model, on_event, num_characters=size)
            )
            if not request.all:
                least = MIN_SIMILARITY.get(model.name, -1.0)
                min_similarity = least if request.min is None else request.min
        answer = searcher.search(
            request.question, vectors, mode=request.mode, limit=request.limit, filters=filters,
            per_file=request.files, min_similarity=min_similarity,
        )  # fmt: skip
    for note in answer.notes:
        on_event(WarningEvent(note))
    return answer


# -- similar documents -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SimilarRequest(FilterOptions, IndexOptions, EmbeddingOptions, FileOptions):
    """Similar documents."""

    to_text: str = option("", "the text that others are compared with", flag=False)
    to_file: Path | None = option(
        None, "the file that others are compared with", flag=False, upload=True
    )
    texts: tuple[str, ...] = option((), "texts to compare with it", flag=False)
    files: tuple[Path, ...] = option(
        (), "files to compare with it; an index is searched without texts and files", flag=False,
        upload=True,
    )  # fmt: skip
    limit: int = option(10, "how many", ge=1, le=1000, metavar="N")
    model: str = option(
        "", "embedding model; if not given, that of the index, or one for the language of the"
        " texts", setting="documents.model", fill=False, metavar="NAME",
    )  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Texts and files by their similarity to one, the nearest first. Numbers count from 0, texts
    before files.
    """

    model: str
    similar: tuple[tuple[int, float], ...]
    """Numbers and cosines."""
    failed: tuple[tuple[int, AnyrigError], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "similar": [
                {"number": number, "similarity": round(cosine, 4)}
                for number, cosine in self.similar
            ],
            "failed": [
                {"number": number, "error": error.message, "hint": error.hint}
                for number, error in self.failed
            ],
        }


def search_similar(rig: Rig, request: SimilarRequest, on_event: OnEvent) -> SearchResult:
    """The files of an index that are most similar to a text or a file, by their best passage."""
    path = find_index_file(rig, request.index)
    with ExitStack() as stack:
        searcher = stack.enter_context(open_searcher(rig, request.index))
        model = find_index_model(rig, replace(request, model=""), path, on_event)
        vectors = stack.enter_context(borrow_embedder(rig, request, model, on_event))
        text, mean = _embed_subject(rig, request, vectors, on_event)
        filters = build_filters(request, searcher.list_files)
        return searcher.search(
            text[:2000], _KnownVector(model, mean), mode="vectors", limit=request.limit,
            filters=filters, per_file=True,
        )  # fmt: skip


def compare(rig: Rig, request: SimilarRequest, on_event: OnEvent) -> Comparison:
    """Compare texts and files with one; those that cannot be read are listed."""
    from anyrig.documents.reading import TextSource

    sources = name_texts(request.texts) + [TextSource(str(file), file) for file in request.files]
    texts = [text for text in (request.to_text, *request.texts) if text]
    model = find_model(rig, request, detect_languages(texts), on_event)
    similar: list[tuple[int, float]] = []
    failed: list[tuple[int, AnyrigError]] = []
    with open_vectors(rig, request, model, on_event) as vectors:
        _, mean = _embed_subject(rig, request, vectors, on_event)
        for number, found in enumerate(_embed_means(rig, request, sources, vectors, on_event)):
            if isinstance(found, AnyrigError):
                failed.append((number, found))
            else:
                similar.append((number, float(found[1] @ mean)))
    similar.sort(key=lambda one: -one[1])
    return Comparison(model.name, tuple(similar[: request.limit]), tuple(failed))


def _embed_subject(
    rig: Rig, request: SimilarRequest, vectors: Vectors, on_event: OnEvent
) -> tuple[str, Vector]:
    """The text that others are compared with, and its vector."""
    from anyrig.documents.reading import TextSource

    if bool(request.to_text) == (request.to_file is not None):
        raise InvalidInputError(
            Message(
                "give either {to_text} or {to_file}",
                to_text=OptionRef("to_text"),
                to_file=OptionRef("to_file"),
            ),
            hint="Give one of them.",
        )
    source = TextSource(str(request.to_file or "the text"), request.to_file, request.to_text)
    (found,) = _embed_means(rig, request, [source], vectors, on_event)
    if isinstance(found, AnyrigError):
        raise found
    return found


def _embed_means(
    rig: Rig,
    request: SimilarRequest,
    sources: Sequence[TextSource],
    vectors: Vectors,
    on_event: OnEvent,
) -> Iterator[tuple[str, Vector] | AnyrigError]:
    """The text of each source, and the mean of its passages' vectors."""
    from anyrig.documents.embed import document_vectors
    from anyrig.documents.passages import split_passages
    from anyrig.documents.reading import build_textless_error
    from anyrig.text.sandbox import ReadError

    for number, (_, document) in enumerate(read_sources(rig, request, sources)):
        on_event(ProgressEvent("comparing", number, len(sources)))
        if isinstance(document, ReadError):
            yield document.error
            continue
        found = list(split_passages(document))
        if not found:
            yield build_textless_error(document)
            continue
        found = found[:: 1 + len(found) // _SIMILAR_PASSAGES]
        matrix = vectors.matrix([one.text for one in found])
        yield document.text, document_vectors([[one.text for one in found]], [matrix])[0]


class _KnownVector:
    """A vector that is known already, where a search embeds its question."""

    def __init__(self, model: EmbeddingModel, vector: Vector) -> None:
        self.model, self._vector = model, vector

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[Vector]:
        for _ in texts:
            yield self._vector[None]

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> Vector:
        import numpy as np

        return np.concatenate(list(self.embed(texts, use=use)))


# -- which files -----------------------------------------------------------------------------------


def build_filters(options: FilterOptions, list_files: Callable[[], list[FileRow]]) -> Filters:
    """The files that a search is about; folders, types and languages of which the index has no
    file are errors. The files are listed only if something has to be looked up among them.
    """
    from anyrig.documents.index.search import Filters

    after = parse_date(options.after) if options.after else None
    before = parse_date(options.before) if options.before else None
    if not (options.folder or options.type or options.language):
        return Filters(after=after, before=before)
    files = list_files()
    return Filters(
        folders=tuple(path for folder in options.folder for path in _find_folder(folder, files)),
        types=tuple(one for name in _lower(options.type) for one in _find_types(name, files)),
        after=after,
        before=before,
        languages=tuple(_find_language(name, files) for name in _lower(options.language)),
    )


def parse_date(text: str, now: datetime.datetime | None = None) -> float:
    """A date in seconds since 1970: `2026-03-01`, `2026-03`, `30d` for thirty days ago."""
    span = re.fullmatch(r"(\d+)([hdwmy])", text.strip().lower())
    try:
        if span:
            ago = datetime.timedelta(days=int(span[1]) * _SPAN_DAYS[span[2]])
            return ((now or datetime.datetime.now()) - ago).timestamp()
        parts = [int(part) for part in re.split(r"[-/.]", text.strip().partition("T")[0])]
        if parts[0] >= 1000 and len(parts) <= 3:
            return datetime.datetime(*(*parts, 1, 1)[:3]).timestamp()  # type: ignore[arg-type]
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInputError(
        f"{text!r} is not a date", hint="Write 2026-03-01, 2026-03, 2026, or 30d for 30 days ago."
    )


def _find_folder(folder: Path, files: Iterable[FileRow]) -> tuple[bytes, bytes]:
    from anyrig.documents.index.db import is_under
    from anyrig.documents.index.plan import resolve_path

    # By its own name too: a file behind a link within a folder is indexed by that name.
    paths = (resolve_path(folder), os.fsencode(os.path.abspath(folder)))
    if not any(is_under(file.path, paths) for file in files):
        raise InvalidInputError(
            f"the index has no file in {folder}", hint="`anyrig index --status` lists its folders."
        )
    return paths


def _find_types(name: str, files: Iterable[FileRow]) -> tuple[str, ...]:
    from anyrig.documents.index.search import list_types

    types = list_types([name])
    formats = Counter(file.format for file in files)
    endings = {os.path.splitext(os.fsdecode(file.path))[1].lstrip(".").lower() for file in files}
    if not any(one in formats or one in endings for one in types):
        raise InvalidInputError(
            f"the index has no file of the type {name!r}", hint=_format_known(formats)
        )
    return types


def _find_language(name: str, files: Iterable[FileRow]) -> str:
    code = language_code(name).partition("-")[0]
    languages = Counter(file.language for file in files if file.language)
    if code not in languages:
        raise InvalidInputError(
            f"the index has no file in the language {name!r}", hint=_format_known(languages)
        )
    return code


def _format_known(counts: Counter[str]) -> str:
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:30]
    known = ", ".join(f"{name} ({count:,})" for name, count in most)
    return f"It has: {known}." if known else "`anyrig index --status` shows what it has."


def _lower(names: Sequence[str]) -> list[str]:
    return [name.strip().lower() for name in names if name.strip()]


# -- as JSON ---------------------------------------------------------------------------------------


def answer_to_json(answer: SearchResult) -> dict[str, Any]:
    return {
        "words": list(answer.words),
        "hits": [hit_to_json(hit) for hit in answer.hits],
        "nearest": hit_to_json(answer.nearest) if answer.nearest else None,
        "unmatched": answer.num_far,
    }


def hit_to_json(hit: Hit) -> dict[str, Any]:
    return {
        "score": hit.score,
        "similarity": None if hit.similarity is None else round(hit.similarity, 4),
        **_place_to_json(hit.place, len(hit.text)),
        "text": hit.text,
        "sentence": None if hit.sentence is None else list(hit.sentence),
        "matches": [list(span) for span in hit.matches],
        "also": [_place_to_json(place, len(hit.text)) for place in hit.places[1:]],
        "more_passages": hit.num_more,
    }


def _place_to_json(place: HitPlace, length: int) -> dict[str, Any]:
    return {
        "file": str(place.file), "name": get_display_name(place.file),
        "page": place.page or None, "title": place.title,
        "start": place.start, "end": place.start + length, "file_start": place.file_start,
        "file_end": place.file_start + length, "type": place.format, "language": place.language,
        "changed": datetime.datetime.fromtimestamp(place.modified).isoformat(timespec="seconds"),
    }  # fmt: skip
