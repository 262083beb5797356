"""`anyrig book FILE --list`: chapters with words and lengths; with --chapters their segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyrig.cli.book_show import pace_of, rate_of
from anyrig.cli.context import Context
from anyrig.cli.show import print_json, table
from anyrig.text.language import num_words
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.cli.speaker import Chosen
    from anyrig.services.book import Order
    from anyrig.text.document import Chapter, Document


def run(context: Context, order: Order, document: Document, teller: Chosen) -> int:
    """Show them."""
    if context.options.speakers:
        return _speakers(context, document, teller)
    if order.chapters:
        return _segments(context, order, document, teller)
    told = listed(context, order, document, teller)
    if context.options.json:
        print_json(told)
        return 0
    rows, audio_s, fast = told["chapters"], told["estimated_s"], told["times_real_time"]
    _print(document, rows)
    words = sum(row["words"] for row in rows if row["spoken"])
    guess = "" if told["measured"] else " (a guess: this voice has not been measured yet)"
    print(f"\n{pluralize(words, 'word')}, about {format_duration(audio_s)} of speech{guess}")
    if told["to_make_s"] is not None:
        measured = f"{fast:.0f} times real time, as last measured here"
        print(f"about {format_duration(told['to_make_s'])} to make, at {measured}")
    return 0


def listed(context: Context, order: Order, document: Document, teller: Chosen) -> dict[str, Any]:
    """The book and its chapters, which of them are spoken, and how long each will be."""
    from anyrig.audiobooks.plan import chosen, num_spoken

    spoken = set(chosen(document, order.chapters, order.ways))
    rate = rate_of(context, teller)
    heard = num_spoken(document, order.ways)
    pace, rests = pace_of(context), order.rests.each_s
    rows = [
        _row(number, chapter, number in spoken, rate.audio_s(heard[number], pace) + rests)
        for number, chapter in enumerate(document.chapters)
    ]
    audio_s = sum(row["estimated_s"] for row in rows if row["spoken"])
    about = document.about
    return {
        "title": about.title, "authors": about.authors, "language": about.language,
        "series": about.series or None, "format": document.format,
        "cover": document.cover is not None, "chapters": rows, "engine": teller.name,
        "estimated_s": round(audio_s, 1), "measured": rate.measured,
        "to_make_s": _to_make_s(audio_s, rate.times_real_time),
        "times_real_time": rate.times_real_time,
    }  # fmt: skip


def _to_make_s(audio_s: float, times_real_time: float | None) -> float | None:
    return round(audio_s / times_real_time, 1) if times_real_time else None


def _row(position: int, chapter: Chapter, spoken: bool, seconds: float) -> dict[str, Any]:
    from anyrig.audiobooks.plan import title_of

    return {
        "number": position + 1,
        "title": title_of(chapter, position + 1),
        "level": chapter.level,
        "role": chapter.role,
        "words": sum(num_words(block.text) for block in chapter.blocks),
        "characters": chapter.num_characters,
        "estimated_s": round(seconds, 1),
        "spoken": spoken,
    }


def _print(document: Document, rows: list[dict[str, Any]]) -> None:
    about = document.about
    by = f" by {', '.join(about.authors)}" if about.authors else ""
    series = f" ({about.series} {about.series_index})".replace(" )", ")") if about.series else ""
    print(f"{about.title}{by}{series}\n")
    shown = [("", "chapter", "words", "about", "")]
    for row in rows:
        indent = "  " * (min(row["level"], 6) - 1)
        note = "" if row["spoken"] else f"not read ({row['role']})"
        shown.append(
            (str(row["number"]), f"{indent}{row['title']}"[:60], f"{row['words']:,}",
             format_duration(row["estimated_s"]), note)
        )  # fmt: skip
    print(table(shown, right=(0, 2, 3)))


def _segments(context: Context, order: Order, document: Document, teller: Chosen) -> int:
    """Each segment of some chapters, under the number that --again takes."""
    from anyrig.cli.book import planned

    plan = planned(context, order, document, teller)
    rows = [
        {"chapter": part.number, "segment": place, "text": " ".join(segment.text.split()),
         "spoken": segment.line.text, "language": segment.line.language,
         "voice": segment.line.voice}
        for part in plan.parts
        for place, segment in enumerate(part.script.segments, 1)
    ]  # fmt: skip
    if context.options.json:
        print_json({"engine": teller.name, "segments": rows, "omitted": dict(plan.omitted())})
        return 0
    for row in rows:
        print(f"{row['chapter']}:{row['segment']:<4} {row['spoken']}")
    return 0


def _speakers(context: Context, document: Document, teller: Chosen) -> int:
    """Who speaks in the book: those with a role, and those that a cast file could name."""
    from anyrig.audiobooks.cast import suggest
    from anyrig.cli.book import casting

    cast = casting(context, teller, document.about.language)
    shares = cast.report(document) if cast else []
    others = suggest(document, cast.cast if cast else None)
    if context.options.json:
        print_json({"roles": [vars(one) for one in shares], "others": [vars(o) for o in others]})
        return 0
    if shares:
        rows = [("role", "voice", "words", "speeches")]
        rows += [
            (one.role or "narrator", one.voice, f"{one.num_words:,}", f"{one.num_speeches:,}")
            for one in shares
        ]
        print(table(rows, right=(2, 3)), end="\n\n" if others else "\n")
    if others:
        rows = [("without a role", "speeches", "", "")]
        rows += [(one.name, f"{one.num_speeches:,}", one.example, "") for one in others]
        print(table([row[:3] for row in rows], right=(1,)))
    if not shares and not others:
        print("Nobody was found who speaks; all is the narrator's.")
    return 0
