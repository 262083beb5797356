"""Questions to an index: by meaning, by words, or both."""

from __future__ import annotations

import datetime
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.app.embedding import EmbeddingOptions, open_embedder
from anyrig.app.events import OnEvent, WarningEvent
from anyrig.app.index import IndexOptions, find_index_file, find_index_model
from anyrig.errors import InvalidInputError
from anyrig.options import Request, option

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.index.search import Answer, Hit, Place
    from anyrig.documents.index.snapshot import FileRow, Filters, Snapshot

SearchMode = Literal["hybrid", "vectors", "keywords"]
_MAX_QUESTION_CHARACTERS = 10_000
_SPAN_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_LANGUAGE_NAMES = """
ar arabic العربية|bg bulgarian български|ca catalan català|cs czech čeština|da danish dansk
de german deutsch|el greek ελληνικά|en english|es spanish español castellano|et estonian eesti
eu basque euskara|fa persian farsi فارسی|fi finnish suomi|fr french français|gl galician galego
he hebrew עברית|hi hindi हिन्दी|hr croatian hrvatski|hu hungarian magyar|id indonesian
is icelandic íslenska|it italian italiano|ja japanese 日本語|ko korean 한국어|lt lithuanian
lv latvian|nl dutch nederlands|no norwegian norsk|pl polish polski|pt portuguese português
ro romanian română|ru russian русский|sk slovak slovenčina|sl slovene slovenian|sr serbian
sv swedish svenska|th thai ไทย|tr turkish türkçe|uk ukrainian українська|vi vietnamese
zh chinese 中文
"""
_LANGUAGE_CODES = {
    name: words[0]
    for words in map(str.split, re.split(r"[|\n]", _LANGUAGE_NAMES.strip()))
    for name in words[1:]
}
"""Names of languages, in English and in their own; the index has codes."""


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
    mode: SearchMode = option("hybrid", "by meaning and words, by meaning, or by words")
    limit: int = option(10, "how many passages", ge=1, le=1000, metavar="N")
    files: bool = option(False, "only the best passage of each file")
    all: bool = option(False, "also passages that are not near the question")
    min: float | None = option(
        None, "lowest similarity of passages that have no word of the question", ge=0, le=1
    )
    model: str = option(
        "", "embedding model; if not given, the model that the index has", metavar="NAME"
    )


def search(rig: Rig, request: SearchRequest, on_event: OnEvent) -> Answer:
    """The passages of an index that answer a question best."""
    from anyrig.documents.index.near import floor
    from anyrig.documents.index.search import Searcher

    if not request.question.strip():
        raise InvalidInputError("nothing to search for", hint="Give some words.")
    path = find_index_file(rig, request.index)
    by_meaning = request.mode != "keywords"
    with ExitStack() as stack:
        searcher = stack.enter_context(Searcher(path))
        filters = build_filters(request, lambda: searcher.snapshot(vectors=by_meaning))
        vectors, least = None, None
        if by_meaning:
            # A question is short: another process, or a GPU, takes longer to start.
            options = replace(request, device=request.device or "cpu")
            model = find_index_model(rig, options, path, on_event)
            size = min(len(request.question), _MAX_QUESTION_CHARACTERS)
            vectors = stack.enter_context(
                open_embedder(rig, options, model, on_event, num_characters=size)
            )
            if not request.all:
                least = floor(model.name) if request.min is None else request.min
        answer = searcher.search(
            request.question, vectors, mode=request.mode, limit=request.limit, filters=filters,
            per_file=request.files, least=least,
        )  # fmt: skip
    for note in answer.notes:
        on_event(WarningEvent(note))
    return answer


# -- which files -----------------------------------------------------------------------------------


def build_filters(options: FilterOptions, get_snapshot: Callable[[], Snapshot]) -> Filters:
    """The files that a search is about; folders, types and languages of which the index has no
    file are errors.

    Args:
        options: as given.
        get_snapshot: of the index; called only if something has to be looked up in it.
    """
    from anyrig.documents.index.snapshot import Filters

    after = parse_date(options.after) if options.after else None
    before = parse_date(options.before) if options.before else None
    if not (options.folder or options.type or options.language):
        return Filters(after=after, before=before)
    files = [file for some in get_snapshot().files.values() for file in some]
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
    from anyrig.documents.index.plan import whole
    from anyrig.documents.index.rows import is_under

    # By its own name too: a file behind a link within a folder is indexed by that name.
    paths = (whole(folder), os.fsencode(os.path.abspath(folder)))
    if not any(is_under(file.path, paths) for file in files):
        raise InvalidInputError(
            f"the index has no file in {folder}", hint="`anyrig index --status` lists its folders."
        )
    return paths


def _find_types(name: str, files: Iterable[FileRow]) -> tuple[str, ...]:
    from anyrig.text.formats.picture import FORMATS

    name = name.lstrip("*.")
    is_picture = name in ("picture", "pictures", "image", "images")
    wanted = FORMATS if is_picture else (name,)
    formats = Counter(file.format for file in files)
    endings = {os.path.splitext(os.fsdecode(file.path))[1].lstrip(".").lower() for file in files}
    if not any(one in formats or one in endings for one in wanted):
        raise InvalidInputError(
            f"the index has no file of the type {name!r}", hint=_format_known(formats)
        )
    return wanted


def _find_language(name: str, files: Iterable[FileRow]) -> str:
    code = _LANGUAGE_CODES.get(name, name.partition("-")[0])
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


def answer_to_json(answer: Answer) -> dict[str, Any]:
    return {
        "words": list(answer.words), "hits": [hit_to_json(hit) for hit in answer.hits],
        "nearest": hit_to_json(answer.nearest) if answer.nearest else None,
        "not_near": answer.num_far,
    }  # fmt: skip


def hit_to_json(hit: Hit) -> dict[str, Any]:
    return {
        "score": hit.score,
        "similarity": None if hit.similarity is None else round(hit.similarity, 4),
        **_place_to_json(hit.place, len(hit.text)),
        "text": hit.text,
        "matches": [list(span) for span in hit.matches],
        "also": [_place_to_json(place, len(hit.text)) for place in hit.places[1:]],
        "more_passages": hit.num_more,
    }


def _place_to_json(place: Place, length: int) -> dict[str, Any]:
    return {
        "file": str(place.file), "page": place.page or None, "title": place.title,
        "start": place.start, "end": place.start + length, "file_start": place.file_start,
        "file_end": place.file_start + length, "type": place.format, "language": place.language,
        "changed": datetime.datetime.fromtimestamp(place.modified).isoformat(timespec="seconds"),
    }  # fmt: skip
