"""`anyrig book FILE --sample 60s --voices a,b,c`: a minute in each voice, before hours of work."""

from __future__ import annotations

import argparse
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import speaker, voicing
from anyrig.cli.book_show import pace_of, rate_of
from anyrig.cli.context import Context
from anyrig.cli.deliver import Target, deliver
from anyrig.cli.keep import keeping
from anyrig.cli.show import print_json
from anyrig.errors import InvalidInputError
from anyrig.units import format_duration

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import Part, Plan
    from anyrig.services.book import Order
    from anyrig.speech.script import Script
    from anyrig.text.document import Document

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min)?")
_UNSAFE = re.compile(r"[^\w.+-]+")


def run(context: Context, order: Order, document: Document) -> int:
    """A preview for each voice, of the same passage."""
    wanted_s = seconds(context.options.sample)
    named = [voice.strip() for voice in (context.options.voices or "").split(",") if voice.strip()]
    format = context.options.format or "mp3"
    made = [
        _preview(_as(context, voice), order, document, wanted_s, format)
        for voice in named or [context.options.voice]
    ]
    if context.options.json:
        print_json({"samples": made})
        return 0
    for one in made:
        who = " ".join(filter(None, (one["engine"], one["voice"])))
        print(f"{one['file']}: {who}, {format_duration(one['audio_s'])}")
    return 0


def seconds(text: str) -> float:
    """A time such as 60s or 2min."""
    match = _TIME.fullmatch(text.strip().lower())
    value = float(match[1]) * (60 if (match[2] or "s").startswith("m") else 1) if match else 0.0
    if not 1 <= value <= 3600:
        raise InvalidInputError(
            f"--sample {text} is no time", hint="A time from 1s to 60min, such as 60s or 2min."
        )
    return value


def _as(context: Context, voice: str | None) -> Context:
    """The same command with another voice."""
    options = argparse.Namespace(**{**vars(context.options), "voice": voice})
    return Context(options, context.environment)


def _preview(
    context: Context, order: Order, document: Document, wanted_s: float, format: str
) -> dict[str, Any]:
    from anyrig.cli.book import planned, teller_of

    teller = teller_of(context, document)
    plan = planned(context, order, document, teller)
    per_second = pace_of(context) / rate_of(context, teller).seconds_per_character
    script = passage(plan, round(wanted_s * per_second))
    voice = speaker.voice_of(context, teller) or _first_voice(teller)
    path = _path(order, teller.name, voice, format)
    target = Target.of(str(path), format, play=False)
    with ExitStack() as stack:
        store = stack.enter_context(keeping(context))
        size = len(script.source)
        studio = stack.enter_context(voicing.studio(context, teller, size, store))
        delivered = deliver(studio, script, target, loudness=order.target_lufs)
    return {
        "file": str(path), "engine": teller.name, "voice": voice,
        "audio_s": round(delivered.audio_s, 3),
    }  # fmt: skip


def passage(plan: Plan, num_characters: int) -> Script:
    """Segments of about so many characters: from the longest chapter, where there is most prose."""
    part: Part = max(plan.parts, key=lambda part: len(part.script.source))
    segments, count = [], 0
    for segment in part.script.segments:
        if count >= num_characters:
            break
        segments.append(segment)
        count += len(segment.line.text)
    return replace(part.script, segments=tuple(segments))


def _first_voice(teller: speaker.Chosen) -> str:
    return teller.found.voices[0].name if teller.found.voices else ""


def _path(order: Order, engine: str, voice: str, format: str) -> Path:
    """Beside where the book would go."""
    name = _UNSAFE.sub("_", "-".join(filter(None, (order.output.stem, engine, voice))))
    return order.output.with_name(f"{name[:120]}.{format}")
