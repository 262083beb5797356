"""The voice's flags, the script and the studio: what all commands that speak share.

Who speaks is decided in `speaker.py`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, fleet
from anyrig.cli.context import Context
from anyrig.cli.output import print_warning
from anyrig.cli.pick import pick
from anyrig.cli.speaker import Chosen, blended, checked_voice, refusal, voice_of
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.placement import PlacementPlan
    from anyrig.speech.lexicon import Lexicon
    from anyrig.speech.recite import Terms
    from anyrig.speech.script import Script, Segment
    from anyrig.speech.synthesise import Studio
    from anyrig.storage.cache import Cache

_CHARACTERS_PER_WORKER = 250  # less than this is not worth another process's start


def arguments(parser: argparse.ArgumentParser, *, ssml: bool = True) -> None:
    """The options of a command that speaks; `ssml` where its text may be marked up."""
    group = parser.add_argument_group("the voice")
    group.add_argument("--engine", metavar="NAME", help="which engine; `anyrig engines` lists them")
    group.add_argument(
        "--voice", metavar="NAME", help="which voice; `anyrig voices` lists them; a:2+b blends two"
    )
    group.add_argument("--model", metavar="FOLDER", help="weights in a folder of your own")
    group.add_argument(
        "--language", metavar="CODE", help="en, es, fr ...; found out when not given"
    )
    group.add_argument("--rate", type=rate, metavar="X", help="2 is twice as fast; 0.25 to 4")
    group.add_argument("--seed", type=int, metavar="N", help="another take of the same words")
    group.add_argument(
        "--set", action="append", metavar="KEY=VALUE", default=[],
        help="an option of the engine; `anyrig engines show NAME` lists them",
    )  # fmt: skip
    group.add_argument("--lexicon", metavar="FILE", help="how words are pronounced")
    if ssml:
        group.add_argument(
            "--ssml", action="store_true",
            help="the text is SSML; found out when it begins with <speak",
        )  # fmt: skip


def rate(text: str) -> float:
    """A speaking rate."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.25 <= value <= 4:
        raise InvalidInputError(
            f"--rate {text} cannot be spoken", hint="It goes from 0.25 to 4; 1 is the voice's own."
        )
    return value


def lufs(text: str) -> float:
    """A loudness."""
    try:
        value = float(text)
    except ValueError:
        value = 1.0
    if not -70 <= value <= 0:
        raise InvalidInputError(
            f"--loudness {text} is no loudness", hint="LUFS go from -70 to 0: -19, -16."
        )
    return value


def loudness(context: Context) -> float:
    """What a file should have, in LUFS; 0 leaves it alone."""
    asked = context.options.loudness
    return context.loaded.settings.speech.loudness if asked is None else float(asked)


def read_text(path: Path) -> str:
    """A text file, whatever its encoding."""
    from anyrig.text.decode import decode

    if not path.is_file():
        raise InvalidInputError(
            f"no file {path}", hint="Look at its name; -f - reads the standard input."
        )
    return decode(path.read_bytes(), str(path))


def placed(context: Context, chosen: Chosen, num_characters: int) -> PlacementPlan:
    """Where the engine's workers sit; no more of them than the text keeps busy."""
    if fleet.url_of(context):
        return fleet.placed(context, chosen)
    context.options.no_bench = context.options.no_bench or not any(
        gpu.usable for gpu in context.machine.gpus
    )  # with the CPU alone there is nothing to choose by figures
    need = replace(
        chosen.kind.need(chosen.found),
        most_workers=max(1, num_characters // _CHARACTERS_PER_WORKER),
    )
    return compute.placed(context, pick(context), need)


@contextmanager
def studio(
    context: Context, chosen: Chosen, num_characters: int, store: Cache | None
) -> Iterator[Studio]:
    """A studio that loads while the text is prepared."""
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.speech.stage import Stage
    from anyrig.speech.synthesise import Studio

    found = placed(context, chosen, num_characters)
    if not fleet.url_of(context):
        found = compute.guard_workers(context, found)
    stage = Stage(
        engine=chosen.name,
        found=chosen.found,
        placed=found,
        environment=context.environment,
        options=chosen.options,
        store=store,
        limits=KnownBatchSizes(context.folders.batch_limits),
        stamp=stamp(context, found),
        hire=fleet.hired(context, chosen, found),
    )
    with Studio(stage) as made:
        yield made


def stamp(context: Context, found: PlacementPlan) -> str:
    """Driver and library versions, under which batch sizes hold."""
    from anyrig.bench.measurements import describe_versions

    stamps = {
        describe_versions(placement.device, context.machine) for placement in found.placements
    }
    return " | ".join(sorted(stamps))


def script(
    context: Context, chosen: Chosen, text: str, *, files: bool = True, **more: Any
) -> Script:
    """A text as this engine will speak it; `files` where its voices may be recordings."""
    from anyrig.errors import UnsupportedLanguageError
    from anyrig.speech.prepare import prepare

    terms = vars(terms_of(context, chosen))
    arguments: dict[str, Any] = {
        **terms,
        "language": context.options.language or context.loaded.settings.speech.language,
        "ssml": True if context.options.ssml else "auto",
    }
    try:
        made = prepare(text, **(arguments | more))
    except UnsupportedLanguageError as error:
        raise refusal(context, error, chosen) from error
    check_voices(made.segments, chosen, files=files)  # the text may name some itself
    fleet.check_voices(context, made.segments)
    return made


def terms_of(context: Context, chosen: Chosen) -> Terms:
    """What the person wants and the engine can: flags over settings."""
    from anyrig.speech.lexicon import Lexicon
    from anyrig.speech.pauses import Pauses
    from anyrig.speech.recite import Terms
    from anyrig.speech.split import SHORT_WORDS

    options, settings = context.options, context.loaded.settings.speech
    return Terms(
        limit=chosen.spec.limit,
        phonemes=chosen.spec.phonemes,
        languages=chosen.found.languages,
        voice=voice_of(context, chosen),
        voices=_voices(context, chosen),
        rate=options.rate or settings.rate,
        seed=options.seed or 0,
        lexicon=lexicon(context) or Lexicon(),
        pauses=Pauses(
            clause_s=settings.pause_clause,
            sentence_s=settings.pause_sentence,
            paragraph_s=settings.pause_paragraph,
            heading_s=settings.pause_heading,
            dialogue_s=settings.pause_dialogue,
        ),
        shortest=SHORT_WORDS,
    )


def check_voices(segments: Sequence[Segment], chosen: Chosen, *, files: bool = True) -> None:
    """That each segment's voice is there and speaks its language, before anything is loaded."""
    from anyrig.speech.protocol import Line
    from anyrig.speech.voices import pick as pick_voice

    known = chosen.found.voices
    lines = [segment.line for segment in segments if segment.line.voice]
    for voice, language in dict.fromkeys((line.voice, line.language) for line in lines):
        checked_voice(voice, chosen, files=files)
        for name in blended(voice) if known and not (files and Path(voice).is_file()) else ():
            pick_voice(known, Line("", language, name))


def _voices(context: Context, chosen: Chosen) -> dict[str, str]:
    """The voice of each language that the one asked for does not speak: the engine's first.

    Named here, so that the default voice and the same one asked for by name are one and the same.
    """
    asked = voice_of(context, chosen)
    first = blended(asked)[0] if asked else ""
    own = next((voice for voice in chosen.found.voices if voice.name == first), None)
    spoken = {own.language, *own.also} if own is not None else set()
    firsts: dict[str, str] = {}
    for voice in chosen.found.voices:
        if voice.language not in spoken and (own is not None or not asked):
            firsts.setdefault(voice.language, voice.name)
    return firsts


def lexicon(context: Context) -> Lexicon | None:
    """The user's lexicon, if there is one."""
    named = context.options.lexicon or context.loaded.settings.speech.lexicon
    if not named:
        return None
    from anyrig.speech.lexicon import load

    # A server goes on with a lexicon that it took once, when more patterns were allowed.
    skip = getattr(context.options, "unattended", False)
    found = load(Path(named).expanduser(), skip_patterns=skip)
    for reason in found.left_out:
        _warn_once(f"{reason}; this entry is left out")
    return found


@lru_cache(maxsize=1000)
def _warn_once(text: str) -> None:
    print_warning(text)
