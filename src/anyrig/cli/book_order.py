"""What a person ordered: the flags of `anyrig book` and its settings as one order."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anyrig.cli import voicing
from anyrig.cli.context import Context
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.audiobooks.ways import Ways
    from anyrig.services.book import Caption, Order


def ordered(context: Context) -> Order:
    """The order that the flags and settings make."""
    from anyrig.audiobooks.make import Rests
    from anyrig.services.book import Order

    options, settings = context.options, context.loaded.settings.book
    source = Path(options.files[-1]).expanduser()
    output, format = _output(options, source)
    return Order(
        source=source,
        output=output,
        format=format,
        chapters=options.chapters,
        ways=ways(context),
        title=options.title,
        untitled=options.untitled,
        author=options.author,
        narrator=options.narrator,
        language=options.language or "",
        cover=Path(options.cover).expanduser() if options.cover else None,
        captions=_captions(options.captions),
        readalong=options.read_along,
        target_lufs=_loudness(context),
        bitrate=_bitrate(options.bitrate) or settings.bitrate or None,
        rests=Rests(settings.rest_before, settings.rest_after),
        allow_gaps=options.allow_gaps,
        again=_again(options.again),
        fresh=options.fresh,
    )


def ways(context: Context) -> Ways:
    """What is done with what: flags over settings."""
    from anyrig.audiobooks.ways import CHOICES, Ways

    settings = context.loaded.settings.book
    return Ways(
        **{name: getattr(context.options, name) or getattr(settings, name) for name in CHOICES}
    )


def _output(options: argparse.Namespace, source: Path) -> tuple[Path, str]:
    from anyrig.audiobooks.write import BOOK_ENDINGS
    from anyrig.services.book import BOOK_FORMATS, CHAPTER_FORMATS

    known = (*BOOK_FORMATS, *CHAPTER_FORMATS)
    named = Path(options.output).expanduser() if options.output else None
    format = (options.format or "").lower().lstrip(".")
    if format and format not in known:
        raise InvalidInputError(
            f"no format {options.format!r}", hint=f"There are: {', '.join(known)}."
        )
    ending = named.suffix.lower().lstrip(".") if named else ""
    if named is not None and not format and ending in CHAPTER_FORMATS:
        raise InvalidInputError(
            f"a book in one file is an m4b, not {named.name}",
            hint=f"-o {named.stem}.m4b, or -o {named.stem} --format {ending} for a file a chapter.",
        )
    format = format or "m4b"
    if format in CHAPTER_FORMATS and ending == "m4b":
        raise InvalidInputError(
            f"{named} is named like a book, and {format} is a file for each chapter",
            hint="Name a folder with -o, or leave --format out.",
        )
    if format in CHAPTER_FORMATS:
        return named or Path(source.stem), format
    if named is None:
        return Path(f"{source.stem}.m4b"), format
    if named.is_dir() or options.output.endswith(("/", "\\")):
        return named / f"{source.stem}.m4b", format
    if named.suffix.lower() in BOOK_ENDINGS:
        return named, format
    return named.with_name(f"{named.name}.m4b"), format  # `Vol. 2` has no ending


def _captions(text: str) -> tuple[Caption, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if name not in ("srt", "vtt"):
            raise InvalidInputError(f"no captions as {name!r}", hint="There are: srt, vtt.")
    return cast("tuple[Caption, ...]", names)


def _again(texts: list[str]) -> tuple[tuple[int, int], ...]:
    found = []
    for piece in (piece.strip() for text in texts for piece in text.split(",")):
        chapter, sign, segment = piece.partition(":")
        if not (sign and chapter.isdecimal() and segment.isdecimal()):
            raise InvalidInputError(
                f"--again {piece} names no segment", hint="Chapter and segment, such as 3:17."
            )
        found.append((int(chapter), int(segment)))
    return tuple(found)


def _bitrate(text: str | None) -> int | None:
    if not text:
        return None
    number = text.lower().removesuffix("k")
    if not number.isdecimal():
        raise InvalidInputError(
            f"--bitrate {text} is no number", hint="Bits a second, such as 64k or 96000."
        )
    return int(number) * (1000 if text.lower().endswith("k") else 1)


def _loudness(context: Context) -> float:
    if context.options.loudness is None and context.options.levels == "acx":
        return -20.5
    return voicing.loudness(context)
