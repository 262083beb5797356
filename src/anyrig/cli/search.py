"""`anyrig search`: what folders say on a question, with file, page and passage."""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, embedding, search_filters
from anyrig.cli.context import Context
from anyrig.cli.index import DEFAULT, index_path, known_model
from anyrig.cli.show import paint, print_json, print_warning
from anyrig.errors import InvalidInputError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.index.search import Answer, Hit, Place
    from anyrig.documents.protocol import Vectors

HELP = """Search what `anyrig index` has read: by meaning and by words at once, or by one of them
with --mode. Each hit has its file, page and passage, with the words of the question bright; files
that say the same are shown once. Filters: --folder, --type, --language, --after and --before,
which go by the day a file was last changed: 2026-03-01, 2026-03, 2026, or 30d for thirty days
ago. A passage that has no word of the question is shown only if its meaning is near: the floor is
the model's, and 0.6 of the best; --min sets another, --all shows the rest too. --json has offsets
in page and file."""
_MOST_LINES = 6
_CONTEXT = 80


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("words", nargs="+", metavar="WORDS", help="what is looked for")
    parser.add_argument(
        "--index", metavar="NAME", default=DEFAULT, help="which index; `default` when not given"
    )
    parser.add_argument(
        "--mode", choices=("hybrid", "vectors", "keywords"), default="hybrid",
        help="by meaning and words, by meaning, or by words; hybrid when not given",
    )  # fmt: skip
    parser.add_argument("--limit", metavar="N", type=_count, default=10, help="how many; 10")
    parser.add_argument("--files", action="store_true", help="the best passage of each file alone")
    parser.add_argument(
        "--full", action="store_true", help="whole passages, not the lines that matter"
    )
    parser.add_argument(
        "--all", action="store_true", help="also what is not near the question, up to --limit"
    )
    parser.add_argument(
        "--min", metavar="X", type=_similarity,
        help="the least similarity, from 0 to 1, of what has no word of the question",
    )  # fmt: skip
    search_filters.arguments(parser)
    embedding.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Search, and show what was found; 0 also where nothing was."""
    from anyrig.documents.index.search import Searcher

    context = Context(options)
    question = " ".join(options.words)
    if not question.strip():
        raise InvalidInputError("there is nothing to search for", hint="anyrig search WORDS")
    path = index_path(context)
    with ExitStack() as stack:
        searcher = stack.enter_context(Searcher(path))
        filters = search_filters.filters(
            options, lambda: searcher.snapshot(vectors=options.mode != "keywords")
        )
        vectors = None
        if options.mode != "keywords":
            # A question is short: another process, or a GPU, takes longer to open.
            options.device = options.device or "cpu"
            found = known_model(context, path)
            vectors = stack.enter_context(
                embedding.embedder(context, found, num_characters=min(len(question), 10_000))
            )
        answer = searcher.search(
            question, vectors, mode=options.mode, limit=options.limit, filters=filters,
            per_file=options.files, least=_least(options, vectors),
        )  # fmt: skip
    _show(context, question, answer)
    return 0


def _least(options: argparse.Namespace, vectors: Vectors | None) -> float | None:
    """How near a hit has to be."""
    from anyrig.documents.index.near import floor

    if options.all or vectors is None:
        return None
    return floor(vectors.model.name) if options.min is None else float(options.min)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise InvalidInputError(
            f"--limit cannot be {text!r}", hint="It is a number from 1 to 1000."
        )
    return int(text)


def _similarity(text: str) -> float:
    try:
        if 0 <= (found := float(text)) <= 1:
            return found
    except ValueError:
        pass
    raise InvalidInputError(
        f"--min cannot be {text!r}", hint="It is a number from 0 to 1, such as 0.3."
    )


# -- showing --------------------------------------------------------------------------------------


def _show(context: Context, question: str, answer: Answer) -> None:
    for note in answer.notes:
        print_warning(note)
    if context.options.json:
        hits = [plain(hit) for hit in answer.hits]
        nearest = plain(answer.nearest) if answer.nearest else None
        print_json({
            "question": question, "words": list(answer.words), "hits": hits, "nearest": nearest,
            "not_near": answer.num_far,
        })  # fmt: skip
        return
    if not answer.hits:
        _nothing(answer, full=context.options.full)
    for number, hit in enumerate(answer.hits, 1):
        print(_heading(number, hit))
        for line in _lines(hit, full=context.options.full):
            print(f"   {line}")


def _nothing(answer: Answer, *, full: bool) -> None:
    hit = answer.nearest
    if hit is None:
        print("Nothing was found.")
        return
    print(f"Nothing close was found; --all shows what there is. The nearest{_alike(hit)}:")
    print(_where(hit))
    for line in _lines(hit, full=full):
        print(f"   {line}")


def _alike(hit: Hit) -> str:
    return "" if hit.similarity is None else f", similarity {hit.similarity:.2f}"


def _where(hit: Hit) -> str:
    place = hit.place
    parts = [paint(_short(place.file), "bold")]
    if place.page:
        parts.append(f"page {place.page}")
    if place.title:
        parts.append(" ".join(place.title.split())[:60])
    return ", ".join(parts)


def _heading(number: int, hit: Hit) -> str:
    told = f"{number}. {_where(hit)}"
    more = [] if hit.similarity is None else [f"similarity {hit.similarity:.2f}"]
    others = len({one.file for one in hit.places} - {hit.place.file})
    more += [f"also in {pluralize(others, 'file')}"] if others else []
    more += [f"{pluralize(hit.num_more, 'more passage')}"] if hit.num_more else []
    return told + (paint(f"  ({', '.join(more)})", "dim") if more else "")


def _short(file: Path) -> str:
    """A path from here where that is shorter; control characters cannot be shown."""
    try:
        told = str(file.relative_to(Path.cwd()))
    except (ValueError, OSError):
        told = str(file)
    told = told.encode("utf-8", "replace").decode("utf-8")
    return "".join(one if one.isprintable() else "?" for one in told)


def _lines(hit: Hit, *, full: bool) -> list[str]:
    """The passage in lines, or what stands around its first bright words."""
    start, end = (0, len(hit.text)) if full else _window(hit)
    width = max(40, min(110, shutil.get_terminal_size().columns) - 4)
    text = _bright(hit, start, end)
    text = ("" if start == 0 else "... ") + text + ("" if end == len(hit.text) else " ...")
    lines = _wrapped(text, width)
    if full or len(lines) <= _MOST_LINES:
        return lines
    return [*lines[:_MOST_LINES], "..."]


def _window(hit: Hit) -> tuple[int, int]:
    """From a little before the first match, to the passage's end: the rest is cut by lines."""
    if not hit.matches or hit.matches[0][0] <= 2 * _CONTEXT:
        return 0, len(hit.text)
    near = hit.matches[0][0] - _CONTEXT
    space = hit.text.find(" ", near)
    return (space + 1 if 0 <= space < hit.matches[0][0] else near), len(hit.text)


_ON, _OFF = "\ue000", "\ue001"  # private characters, until the lines are cut


def _bright(hit: Hit, start: int, end: int) -> str:
    parts, at = [], start
    for first, last in hit.matches:
        if first < start or last > end:
            continue
        parts += [hit.text[at:first], _ON, hit.text[first:last], _OFF]
        at = last
    return " ".join(_printable("".join([*parts, hit.text[at:end]])).split())


def _printable(text: str) -> str:
    """Without what would move a terminal's cursor or colour it."""
    return "".join(
        one if one.isprintable() or one.isspace() or one in (_ON, _OFF) else " " for one in text
    )


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of a width, in which marks take no room; then the marks as the terminal has them."""
    lines = textwrap.wrap(text, width, break_long_words=True, break_on_hyphens=False)
    on, _, off = paint("\0", "bright").partition("\0")
    if not on and not sys.stdout.isatty():
        on, off = "", ""
    return [line.replace(_ON, on).replace(_OFF, off) for line in lines]


def plain(hit: Hit) -> dict[str, Any]:
    """A hit for programs."""
    return {
        "score": hit.score,
        "similarity": None if hit.similarity is None else round(hit.similarity, 4),
        **_plain_place(hit.place, len(hit.text)),
        "text": hit.text,
        "matches": [list(span) for span in hit.matches],
        "also": [_plain_place(place, len(hit.text)) for place in hit.places[1:]],
        "more_passages": hit.num_more,
    }


def _plain_place(place: Place, length: int) -> dict[str, Any]:
    return {
        "file": str(place.file), "page": place.page or None, "title": place.title,
        "start": place.start, "end": place.start + length, "file_start": place.file_start,
        "file_end": place.file_start + length, "type": place.format, "language": place.language,
        "changed": datetime.datetime.fromtimestamp(place.modified).isoformat(timespec="seconds"),
    }  # fmt: skip
