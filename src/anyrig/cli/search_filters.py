"""Which files a search is about, as a person names them; what the index has none of is refused."""

from __future__ import annotations

import argparse
import datetime
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.documents.index.snapshot import FileRow, Filters, Snapshot

_SPANS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_NAMES = """
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
_CODES = {
    name: words[0]
    for words in map(str.split, re.split(r"[|\n]", _NAMES.strip()))
    for name in words[1:]
}
"""Names of languages, in English and in their own: what the index has is the code."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that choose files."""
    group = parser.add_argument_group("which files")
    group.add_argument(
        "--folder", metavar="PATH", action="append", default=[], help="only what lies in it"
    )
    group.add_argument("--type", metavar="LIST", default="", help="such as pdf,docx,eml,picture")
    group.add_argument("--language", metavar="LIST", default="", help="such as en,es or Spanish")
    group.add_argument("--after", metavar="DATE", default="", help="changed on that day or later")
    group.add_argument("--before", metavar="DATE", default="", help="changed before that day")


def filters(options: argparse.Namespace, snapshot: Callable[[], Snapshot]) -> Filters:
    """The files that were asked for.

    Args:
        options: of the command line.
        snapshot: of the index; it is asked for where something has to be looked up in it.
    """
    from anyrig.documents.index.snapshot import Filters

    after = day(options.after) if options.after else None
    before = day(options.before) if options.before else None
    if not (options.folder or options.type or options.language):
        return Filters(after=after, before=before)
    files = [file for some in snapshot().files.values() for file in some]
    return Filters(
        folders=tuple(place for folder in options.folder for place in _folder(folder, files)),
        types=tuple(one for word in _words(options.type) for one in _types(word, files)),
        after=after,
        before=before,
        languages=tuple(_language(word, files) for word in _words(options.language)),
    )


def _folder(named: str, files: Iterable[FileRow]) -> tuple[bytes, bytes]:
    from anyrig.documents.index.plan import whole
    from anyrig.documents.index.rows import is_under

    # As it was named too: a file behind a link within a folder is indexed by that name.
    places = (whole(Path(named)), os.fsencode(os.path.abspath(os.path.expanduser(named))))
    if not any(is_under(file.path, places) for file in files):
        raise InvalidInputError(
            f"the index has no file in {named}", hint="`anyrig index --status` shows its folders."
        )
    return places


def _types(word: str, files: Iterable[FileRow]) -> tuple[str, ...]:
    from anyrig.text.formats.picture import FORMATS

    asked = word.lstrip("*.")
    pictures = asked in ("picture", "pictures", "image", "images")
    wanted = FORMATS if pictures else (asked,)
    formats = Counter(file.format for file in files)
    endings = {os.path.splitext(os.fsdecode(file.path))[1].lstrip(".").lower() for file in files}
    if not any(one in formats or one in endings for one in wanted):
        raise InvalidInputError(
            f"the index has no file of the type {asked!r}", hint=_there(formats)
        )
    return wanted


def _language(word: str, files: Iterable[FileRow]) -> str:
    code = _CODES.get(word, word.partition("-")[0])
    languages = Counter(file.language for file in files if file.language)
    if code not in languages:
        raise InvalidInputError(
            f"the index has no file in the language {word!r}", hint=_there(languages)
        )
    return code


def _there(counted: Counter[str]) -> str:
    most = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:30]
    told = ", ".join(f"{name} ({count:,})" for name, count in most)
    return f"There are: {told}." if told else "`anyrig index --status` shows what is there."


def _words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",") if word.strip()]


def day(text: str, now: datetime.datetime | None = None) -> float:
    """A date as a person writes it, in seconds since 1970: `2026-03-01`, `2026-03`, `30d`."""
    found = re.fullmatch(r"(\d+)([hdwmy])", text.strip().lower())
    try:
        if found:
            span = datetime.timedelta(days=int(found[1]) * _SPANS[found[2]])
            return ((now or datetime.datetime.now()) - span).timestamp()
        parts = [int(part) for part in re.split(r"[-/.]", text.strip().partition("T")[0])]
        if parts[0] >= 1000 and len(parts) <= 3:
            return datetime.datetime(*(*parts, 1, 1)[:3]).timestamp()  # type: ignore[arg-type]
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInputError(
        f"{text!r} is no date", hint="Write 2026-03-01, 2026-03, 2026, or 30d for 30 days ago."
    )
