"""A book on its way, as people and programs see it: a line that moves, lines in a log, or JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from anyrig.cli import fleet
from anyrig.cli.context import Context
from anyrig.cli.escape import esc
from anyrig.cli.show import print_warning
from anyrig.errors import AnyrigError
from anyrig.speech.script import OmissionKind
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import Plan
    from anyrig.audiobooks.progress import Progress
    from anyrig.audiobooks.rates import Rate
    from anyrig.cli.speaker import Chosen
    from anyrig.services.book import Made, Order, UnfinishedBookError

_LIVE_S, _LOG_S, _JSON_S = 0.2, 15.0, 0.2
_MOST_WARNINGS = 8
_OMITTED: dict[OmissionKind, tuple[str, str]] = {
    "note": ("note", "--notes inline"), "code": ("listing", "--code speak"),
    "table": ("table", "--tables speak"), "image": ("picture", "--images speak"),
    "poem": ("poem", "--poems lines"),
    "foreign": ("foreign passage", "--foreign read"),
}  # fmt: skip


def rate_of(context: Context, teller: Chosen) -> Rate:
    """How fast the teller's voice speaks, as measured; a guess before that."""
    from anyrig.audiobooks import rates
    from anyrig.cli.speaker import voice_of

    return rates.load(context.folders.rates, teller.name, voice_of(context, teller))


def pace_of(context: Context) -> float:
    """How fast it shall be spoken, 1 being the voice's own."""
    return float(context.options.rate or context.loaded.settings.speech.rate)


def learn(context: Context, teller: Chosen, plan: Plan, made: Made) -> None:
    """Keep what this book has shown of the voice."""
    from anyrig.audiobooks import rates
    from anyrig.cli.speaker import voice_of

    tally = made.recorded.tally
    fast = made.timeline.duration_s / made.wall_s if not tally.num_kept else None
    spoken_s = made.timeline.duration_s - len(plan.parts) * made.recorded.rests.each_s
    rate = rates.Rate(spoken_s * pace_of(context) / plan.num_characters, fast)
    voice = voice_of(context, teller)
    rates.learn(context.folders.rates, teller.name, voice, rate, plan.num_characters)


class Show:
    """Tells how far a book is."""

    def __init__(self, context: Context, teller: Chosen, plan: Plan) -> None:
        self._context = context
        self._json = bool(context.options.json)
        self._live = not self._json and sys.stderr.isatty()
        self._teller, self._plan = teller, plan
        self._rate, self._pace = rate_of(context, teller), pace_of(context)
        self._next = 0.0
        self._stage = ""

    def __enter__(self) -> Show:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def begin(self, order: Order) -> None:
        """What will be made."""
        plan, rate = self._plan, self._rate
        audio_s = rate.audio_s(plan.num_characters, self._pace)
        audio_s += len(plan.parts) * order.rests.each_s
        if self._json:
            self._put(
                {"event": "begin", "title": plan.document.about.title,
                 "chapters": [part.title for part in plan.parts],
                 "numbers": [part.number for part in plan.parts],
                 "num_segments": plan.num_segments, "num_characters": plan.num_characters,
                 "estimated_audio_s": round(audio_s, 1), "measured": rate.measured,
                 "omitted": dict(plan.omitted()), "output": str(order.output),
                 "engine": self._teller.name}
            )  # fmt: skip
            return
        about = "" if rate.measured else ", a guess until this voice was measured"
        title = plan.document.about.title or order.source.name
        chapters = pluralize(len(plan.parts), "chapter")
        print(f"{title}: {chapters}, {format_duration(audio_s)} of speech{about}", file=sys.stderr)
        for line in _left_out(plan, chosen=bool(order.chapters)):
            print(f"  {line}", file=sys.stderr)
        for warning in plan.warnings[:_MOST_WARNINGS]:
            print_warning(warning)
        if len(plan.warnings) > _MOST_WARNINGS:
            print_warning(f"and {len(plan.warnings) - _MOST_WARNINGS} more of the kind")

    def progress(self, now: Progress) -> None:
        """Called for every segment; tells now and then."""
        clock = time.monotonic()
        changed = now.stage != self._stage
        if clock < self._next and not changed and now.done < 1.0:
            return
        self._stage = now.stage
        self._next = clock + (_JSON_S if self._json else _LIVE_S if self._live else _LOG_S)
        if self._json:
            self._put(now.plain())
        elif self._live:
            room = shutil.get_terminal_size().columns - 1
            print(f"\r{esc(sys.stderr)}[2K{_line(now, room)}", end="", file=sys.stderr, flush=True)
        else:
            print(_line(now, 200), file=sys.stderr, flush=True)

    def unfinished(self, error: UnfinishedBookError) -> None:
        """What could not be spoken, for programs; people are told by the error."""
        if self._json:
            parts = self._plan.parts
            passages = [
                {"chapter": parts[lack.part].number, "segment": lack.segment + 1,
                 "text": lack.text, "said": lack.said, "hint": lack.hint}
                for lack in error.lacks
            ]  # fmt: skip
            self._put({"event": "unfinished", "passages": passages})

    def end(self, order: Order, made: Made) -> None:
        """What was made."""
        self._clear()
        for warning in _doubts(self._plan, made):
            print_warning(warning)
        if self._json:
            self._put(_plain(self._teller, self._plan, made))
        else:
            by = fleet.made_by(self._context, made.recorded.tally)
            for line in _report(self._plan, made, order, by):
                print(line)

    def _clear(self) -> None:
        if self._live and self._stage:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)
            self._stage = ""

    @staticmethod
    def _put(event: dict[str, Any]) -> None:
        print(json.dumps(event, allow_nan=False, default=str), flush=True)


def tell_error(error: AnyrigError) -> None:
    """The last event of a run that failed."""
    print(json.dumps({"event": "failed", "error": error.message, "hint": error.hint}), flush=True)


def _line(now: Progress, room: int) -> str:
    """`chapter 3/12 45 % 44x, 3 min left, cpu 620/s  Down the Rabbit-Hole`, as much as fits."""
    what = "writing" if now.stage == "writing" else f"chapter {now.chapter}/{now.num_chapters}"
    parts = [f"{what} {now.done:4.0%}"]
    if now.speed is not None:
        parts.append(f"{now.speed:.1f} times real time")
    if now.left_s:
        parts.append(f"{format_duration(now.left_s)} left")
    elif now.left_s is None and now.speed is None:
        parts.append("loading")
    if len(now.devices) > 1:
        whole = sum(now.devices.values()) or 1.0
        parts.append(" ".join(f"{name} {rate / whole:.0%}" for name, rate in now.devices.items()))
    elif now.devices:
        parts.append(next(iter(now.devices)))
    line = ", ".join(parts)
    return f"{line}  {now.title}"[:room]


def _left_out(plan: Plan, *, chosen: bool) -> list[str]:
    """What is not spoken, and the flag that has it spoken; chapters that nobody chose are not."""
    from anyrig.audiobooks.plan import SKIPPED

    lines = []
    spoken = {part.number for part in plan.parts}
    left = [
        chapter.title or chapter.role
        for number, chapter in enumerate(plan.document.chapters, 1)
        if number not in spoken and chapter.role in SKIPPED and chapter.num_characters
    ]
    if left and not chosen:
        some = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
        lines.append(f"left out: {some} (--matter speak reads them)")
    counted: Counter[str] = Counter(
        block.kind for part in plan.parts for block in part.chapter.blocks
    )
    omitted = plan.omitted()
    for kind, (name, flag) in _OMITTED.items():
        count = len(plan.foreign) if kind == "foreign" else counted[kind]
        if omitted[kind] and count:
            lines.append(f"left out: {pluralize(count, name)} ({flag} reads them)")
    return lines


def _doubts(plan: Plan, made: Made) -> list[str]:
    """Takes that may sound wrong, with how to make them again; gaps; the writer's warnings."""
    lines = list(made.warnings)
    numbers = [
        (part.number, place)
        for part in plan.parts
        for place in range(1, len(part.script.segments) + 1)
    ]
    gaps = {(plan.parts[lack.part].number, lack.segment + 1) for lack in made.recorded.lacks}
    doubtful = [one for one in made.recorded.tally.doubtful if numbers[one.index] not in gaps]
    for spoken in doubtful[:_MOST_WARNINGS]:
        chapter, place = numbers[spoken.index]
        text = " ".join(spoken.segment.text.split())[:50]
        lines.append(
            f"{'; '.join(spoken.problems)}: {text!r} (--again {chapter}:{place} makes it anew)"
        )
    more = len(doubtful) - _MOST_WARNINGS
    if more > 0:
        lines.append(f"{pluralize(more, 'more segment')} may sound wrong; --json lists them all")
    for lack in made.recorded.lacks:
        chapter = plan.parts[lack.part].number
        lines.append(f"a gap at {chapter}:{lack.segment + 1}, {lack.text[:50]!r}: {lack.said}")
    return lines


def _report(plan: Plan, made: Made, order: Order, by: str) -> list[str]:
    tally, audio_s = made.recorded.tally, made.timeline.duration_s
    facts = [f"{audio_s / made.wall_s if made.wall_s else 0.0:.1f} times real time"]
    num_kept = tally.num_kept - len(set(order.again))  # those were made anew before they were told
    if num_kept > 0:
        were = "was" if num_kept == 1 else "were"
        facts.append(f"{num_kept} of {pluralize(tally.num_segments, 'segment')} {were} kept")
    if by:
        facts.append(by)
    size = sum(path.stat().st_size for path in made.files)
    where = made.files[0] if len(made.files) == 1 else order.output
    lines = [
        f"{where}: {format_duration(audio_s)} of speech, {pluralize(len(plan.parts), 'chapter')}, "
        f"{format_bytes(size)}, in {format_duration(made.wall_s)} ({', '.join(facts)})"
    ]
    lines += [f"{path}" for path in made.beside]
    return lines


def _plain(teller: Chosen, plan: Plan, made: Made) -> dict[str, Any]:
    """The book for programs: files, times of chapters and segments, what is doubtful."""
    rate = made.timeline.rate
    doubtful = {one.index: list(one.problems) for one in made.recorded.tally.doubtful}
    return {
        "event": "done",
        "files": [str(path) for path in made.files],
        "beside": [str(path) for path in made.beside],
        "engine": teller.name,
        "why": teller.why or None,
        "language": plan.main,
        "audio_s": round(made.timeline.duration_s, 4),
        "wall_s": round(made.wall_s, 3),
        "kept": made.recorded.tally.num_kept,
        "made_again": made.recorded.tally.num_again,
        "devices": made.recorded.tally.devices,
        "omitted": dict(plan.omitted()),
        "chapters": [
            {"number": part.number, "title": mark.title, "level": mark.level,
             "start_s": round(mark.start / rate, 4), "end_s": round(mark.end / rate, 4)}
            for part, mark in zip(plan.parts, made.timeline.marks, strict=True)
        ],
        "segments": [
            {"chapter": plan.parts[cue.part].number, "segment": cue.segment + 1,
             "start_s": round(cue.start / rate, 4), "end_s": round(cue.end / rate, 4),
             "text": cue.text, "gap": cue.gap, "problems": doubtful.get(number, [])}
            for number, cue in enumerate(made.timeline.cues)
        ],
    }  # fmt: skip
