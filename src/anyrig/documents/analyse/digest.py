"""One document as what an analysis needs of it: figures, phrases, hashes; its text packed away.

A folder may hold more text than memory: of each document only this is kept.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.analyse import phrases, space
from anyrig.documents.analyse.duplicates import build_shingles
from anyrig.documents.words import is_unspaced, plain, words
from anyrig.text import language as languages
from anyrig.text.labels import one_line
from anyrig.text.tokens import split_paragraphs, split_text

if TYPE_CHECKING:
    from anyrig.documents.analyse.duplicates import Shingled
    from anyrig.documents.analyse.phrases import Candidates
    from anyrig.text.document import Document
    from anyrig.text.tokens import Span

_LONGEST = 5_000_000
"""Characters: a log of hundreds of megabytes would fill memory with its words."""
_MOST_PARAGRAPHS = 80
_FEWEST_LETTERS = 60  # of a paragraph whose language counts: a heading tells little
_LEAST_SHARE = 0.03
_WORDS_A_MINUTE = {"en": 238, "es": 278, "fr": 214, "de": 260, "it": 285, "pt": 260}
"""Of silent reading, in the means that Brysbaert's review of 2019 gives; 230 elsewhere."""
_SIGNS_A_MINUTE = 500  # of Chinese or Japanese, where a character counts as a word
_TTR_WINDOW = 500
_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12]\d|3[01])(?!\d)")


@dataclass(frozen=True)
class Share:
    """How much of a text is in a language."""

    language: str
    share: float


@dataclass(frozen=True)
class FileFacts:
    """A document as its file shows it."""

    name: str
    """As it is shown: a line without anything that could disturb a terminal or a page."""
    path: Path
    format: str
    num_bytes: int
    day: str
    """YYYY-MM-DD; empty where nobody knows."""
    dated_by: str
    """`name` where the file's name holds a date, `file` for the day it was changed."""
    num_pages: int
    read_by: str
    """`text`, `ocr`, or `text and ocr`."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statistics:
    """Words and sentences of a text, and how long it takes to read."""

    num_characters: int
    num_words: int
    num_sentences: int
    num_paragraphs: int
    words_a_sentence: float
    letters_a_word: float
    distinct: float
    """Different words among all, as the mean over stretches of 500: long texts compare with short
    ones."""
    reading_s: float


@dataclass(frozen=True)
class DocumentDigest:
    """What an analysis needs of one document."""

    facts: FileFacts
    language: str
    languages: tuple[Share, ...]
    """The largest first; one of them is `language`."""
    statistics: Statistics
    candidates: Candidates
    shingled: Shingled
    passages: tuple[str, ...]
    """For its vector; empty when none is wanted."""
    packed: bytes

    @property
    def text(self) -> str:
        """All of it."""
        return zlib.decompress(self.packed).decode("utf-8", "surrogatepass")


def digest_document(
    document: Document, *, name: str, vectors: bool, on_step: Callable[[], None] = lambda: None
) -> DocumentDigest:
    """What is kept of a document that was read.

    Args:
        document: as it was read.
        name: under which it is shown.
        vectors: whether passages are wanted.
        on_step: called now and then; it may raise an error to stop.
    """
    whole = document.text
    text = whole[:_LONGEST]
    shares = language_shares(text)
    main = shares[0].language
    spans = split_text(text, main)
    file_facts = read_facts(document, name)
    if len(whole) > _LONGEST:
        cut = f"of {len(whole):,} characters the first {_LONGEST:,} were looked at"
        file_facts = replace(file_facts, warnings=(*file_facts.warnings, cut))
    return DocumentDigest(
        file_facts,
        main,
        shares,
        measure_text(text, spans, main),
        phrases.candidates(text, spans, main, on_step),
        build_shingles(text),
        space.select_passages(document, main) if vectors else (),
        zlib.compress(text.encode("utf-8", "surrogatepass"), 1),
    )


def read_facts(document: Document, name: str) -> FileFacts:
    """What the file tells of itself."""
    try:
        status = document.path.stat()
        size, changed = status.st_size, datetime.fromtimestamp(status.st_mtime, UTC).date()
    except (OSError, ValueError, OverflowError):
        size, changed = 0, None
    named = _date_in(document.path.name)
    pages = document.parts("page")
    read = {scan.page for scan in document.scans if scan.source == "ocr"}
    used = {"ocr" if page.page in read else "text" for page in pages if page.text}
    day = named or changed
    return FileFacts(
        one_line(name, 200) or "(a name without letters)",
        document.path,
        document.format,
        size,
        day.isoformat() if day else "",
        "name" if named else "file" if changed else "",
        max((page.page for page in pages), default=0),
        " and ".join(sorted(used, reverse=True)) or "text",
        tuple(one_line(warning, 300) for warning in document.warnings[:20]),
    )


def _date_in(name: str) -> date | None:
    found = _DATE.search(name)
    try:
        return date(*(int(part) for part in found.groups())) if found else None
    except ValueError:
        return None


def language_shares(text: str) -> tuple[Share, ...]:
    """The languages of a text, the largest share first; always at least one."""
    spans = [span for span in split_paragraphs(text) if span[1] - span[0] >= _FEWEST_LETTERS]
    main = languages.detect_parts([text[start:end] for start, end in spans] or [text])
    if len(spans) > _MOST_PARAGRAPHS:
        spans = [spans[n * len(spans) // _MOST_PARAGRAPHS] for n in range(_MOST_PARAGRAPHS)]
    counts: Counter[str] = Counter()
    for start, end in spans:
        found = languages.detect(text[start:end], default=main.language)
        counts[found.language if found.sure else main.language] += end - start
    return _as_shares(counts, main.language if main.confidence > 0 else "")


def _as_shares(counts: Counter[str], main: str) -> tuple[Share, ...]:
    total = sum(counts.values())
    if not total:
        return (Share(main or "und", 1.0),)
    kept = {one: n for one, n in counts.items() if n >= _LEAST_SHARE * total} or dict(counts)
    whole = sum(kept.values())
    order = sorted(kept, key=lambda one: (-kept[one], one))
    return tuple(Share(one, kept[one] / whole) for one in order)


def share_languages(digests: Sequence[DocumentDigest]) -> tuple[Share, ...]:
    """The languages of a folder, weighed by words."""
    counts: Counter[str] = Counter()
    for one in digests:
        for share in one.languages:
            counts[share.language] += round(share.share * max(1, one.statistics.num_words))
    total = sum(counts.values()) or 1
    order = sorted(counts, key=lambda one: (-counts[one], one))
    return tuple(Share(one, counts[one] / total) for one in order)


def measure_text(text: str, spans: Sequence[Span], language: str) -> Statistics:
    """The figures of a text whose sentences were split, in a language that is known."""
    found = list(words(text))
    num_sentences = sum(map(bool, _counts([word.start for word in found], spans)))
    tokens = [plain(word.text) for word in found]
    num_words = len(found)
    return Statistics(
        len(text), num_words, num_sentences, text.count("\n\n") + 1 if text.strip() else 0,
        num_words / num_sentences if num_sentences else 0.0,
        sum(map(len, tokens)) / num_words if num_words else 0.0,
        _distinct(tokens), _reading_s(tokens, language),
    )  # fmt: skip


def _reading_s(tokens: Sequence[str], language: str) -> float:
    signs = sum(map(is_unspaced, tokens))
    pace = _WORDS_A_MINUTE.get(language.partition("-")[0], 230)
    return 60.0 * ((len(tokens) - signs) / pace + signs / _SIGNS_A_MINUTE)


def _distinct(tokens: Sequence[str]) -> float:
    if not tokens:
        return 0.0
    edges = range(0, max(1, len(tokens) - _TTR_WINDOW // 2), _TTR_WINDOW)
    shares = []
    for start in edges:
        part = tokens[start : start + _TTR_WINDOW]
        shares.append(len(set(part)) / len(part))
    return sum(shares) / len(shares)


def _counts(starts: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """How many words begin in each span; both are in order."""
    return [bisect_left(starts, end) - bisect_left(starts, start) for start, end in spans]
