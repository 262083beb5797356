"""`anyrig speak --lines`: many texts, an audio file for each; cut off and resumed as one likes.

Beside the files lies `lines.jsonl`: what each was made of. An entry whose file is there and was
made of the same is left alone, so a run that was cut off goes on where it stopped, and a changed
line, voice or lexicon makes that entry again and no other.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.cli import speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.deliver import checked_format, write_samples
from anyrig.cli.entries import Entry, chosen, read
from anyrig.cli.events import Events
from anyrig.cli.keep import keeping
from anyrig.cli.show import Progress, print_json, print_warning
from anyrig.errors import AnyrigError, InvalidInputError, UnspeakableTextError, WorkError
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.speech.maker import Spoken
    from anyrig.speech.script import Script, Segment
    from anyrig.speech.synthesise import Studio

MANIFEST = "lines.jsonl"
_MOST_WARNINGS = 8


@dataclass(frozen=True)
class _Job:
    """An entry that is to be made."""

    entry: Entry
    script: Script
    key: str
    path: Path
    again: bool
    asked: int
    """The seed that the file asks for."""


class _Failed(NamedTuple):
    """An entry of which there is no file, and why."""

    entry: Entry
    why: str
    hint: str = ""


@dataclass
class _Run:
    """How far it went."""

    folder: Path
    jobs: list[_Job] = field(default_factory=list)
    """What is to be made."""
    num_there: int = 0
    num_made: int = 0
    audio_s: float = 0.0
    failed: list[_Failed] = field(default_factory=list)


def run(context: Context) -> int:
    """Speak every entry that is not there yet."""
    options = context.options
    _check_flags(options)
    entries = read(Path(options.lines).expanduser())
    folder = Path(options.output or Path(options.lines).stem).expanduser()
    format = checked_format(None, options.format or "wav")
    only = chosen(entries, options.only) if options.only else set()
    wanted = [entry for entry in entries if not only or entry.number in only]
    main = _main_language(context, entries)
    engine = speaker.chosen(context, main)
    _check_asked(context, engine, main)
    with Progress(1, "text") as progress:
        progress.step("looking at what is there")
        made = _planned(
            context, engine, main, wanted, again=bool(only), folder=folder, format=format
        )
    _warn(made.jobs)
    if options.dry_run:
        return _show(context, made)
    if made.jobs:
        _make_folder(folder)
        _make(context, engine, format, made)
    _report(context, engine, made)
    return 0


def _check_flags(options: argparse.Namespace) -> None:
    given = {
        "a text": options.words, "-f": options.file, "--play": options.play,
        "--verify": options.verify,
    }  # fmt: skip
    for name, value in given.items():
        if value:
            raise InvalidInputError(
                f"--lines and {name} were both given", hint=f"Leave {name} out."
            )
    if options.output == "-":
        raise InvalidInputError(
            "--lines writes many files", hint="-o names the folder they go into."
        )


def _main_language(context: Context, entries: Sequence[Entry]) -> str:
    """The language of the list as a whole: a line of two words tells little."""
    texts = [entry.text for entry in entries if not entry.language]
    return speaker.language_of(context, " ".join(texts or [entry.text for entry in entries]))


def _check_asked(context: Context, engine: speaker.Chosen, main: str) -> None:
    """What was asked for all entries is wrong at once, and not once for each of them."""
    from anyrig.speech import tongues

    speaker.voice_of(context, engine)
    voicing.lexicon(context)
    spoken = engine.found.languages
    if speaker.is_told(context) and not tongues.matched(main, spoken):
        raise speaker.refusal(context, tongues.refusal(main, spoken), engine)


def _warn(jobs: Sequence[_Job]) -> None:
    told = [f"{job.path.name}: {words}" for job in jobs for words in job.script.warnings]
    for words in told[:_MOST_WARNINGS]:
        print_warning(words)
    if len(told) > _MOST_WARNINGS:
        print_warning(f"{pluralize(len(told) - _MOST_WARNINGS, 'more warning')} of this kind")


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file", hint="With --lines, -o names a folder.")
    folder.mkdir(parents=True, exist_ok=True)


def _make(context: Context, engine: speaker.Chosen, format: str, made: _Run) -> None:
    jobs = made.jobs
    length = sum(len(job.entry.text) for job in jobs)
    with ExitStack() as stack:
        store = stack.enter_context(keeping(context))
        studio = stack.enter_context(voicing.studio(context, engine, length, store))
        progress = stack.enter_context(Progress(len(jobs), "line"))
        progress.step("loading the voice")
        events = Events(context, len(jobs), "speaking")
        for count, (job, audio) in enumerate(_spoken(studio, jobs), 1):
            progress.done()
            progress.step(job.entry.text[:48])
            lost = [part.failure for part in audio if part.failure is not None]
            if lost:
                why = "; ".join(failure.message for failure in lost)
                made.failed.append(_Failed(job.entry, why, lost[0].hint))
                continue
            for problem in (problem for part in audio for problem in part.problems):
                print_warning(f"{job.path.name}: {problem}")
            made.audio_s += _written(job, audio, studio.rate, format, context)
            made.num_made += 1
            events.progress(count, job.entry.text[:80], audio_s=made.audio_s)


def _show(context: Context, made: _Run) -> int:
    said = [(job, " ".join(part.line.text for part in job.script.segments)) for job in made.jobs]
    if context.options.json:
        rows = [{"file": job.path.name, "text": job.entry.text, "spoken": text}
                for job, text in said]  # fmt: skip
        print_json({"lines": rows, "left": made.num_there, "failed": _stems(made)})
    else:
        for job, text in said:
            print(f"{job.path.name}  {text}")
        if made.num_there:
            print(f"{pluralize(made.num_there, 'file')} already there")
    _complain(made)
    return 0


def _report(context: Context, engine: speaker.Chosen, made: _Run) -> None:
    """What was made; an error when something was not."""
    if context.options.json:
        Events(context).end({
            "folder": str(made.folder), "engine": engine.name, "made": made.num_made,
            "left": made.num_there, "failed": _stems(made),
            "audio_s": round(made.audio_s, 3),
        })  # fmt: skip
    else:
        parts = []
        if made.num_made:
            lasts = format_duration(made.audio_s)
            parts.append(f"{pluralize(made.num_made, 'file')}, {lasts} of speech")
        if made.num_there:
            parts.append(f"{pluralize(made.num_there, 'file')} already there")
        if engine.why:
            parts.append(f"by {engine.name}: {engine.why}")
        print(f"{made.folder}: {', '.join(parts) or 'nothing was made'}")
    _complain(made)


def _stems(made: _Run) -> list[str]:
    return [failed.entry.stem for failed in made.failed]


def _complain(made: _Run) -> None:
    """An error that names the first line without a file, after warnings that name the next."""
    if not made.failed:
        return
    first, *more = made.failed
    for failed in more[: _MOST_WARNINGS - 1]:
        print_warning(f"entry {failed.entry.stem}: {failed.why}")
    raise WorkError(
        f"{pluralize(len(made.failed), 'line')} could not be spoken; the first, "
        f"{first.entry.stem}: {first.why}",
        hint=first.hint or "Run the command again to try the rest: what is there stays.",
    )


# ---------------------------------------------------------------- what is to be made


def _planned(
    context: Context,
    engine: speaker.Chosen,
    main: str,
    entries: Sequence[Entry],
    *,
    again: bool,
    folder: Path,
    format: str,
) -> _Run:
    """What is to be made, what is there already, and what cannot be said at all."""
    from anyrig.storage.keys import make_key

    known = _manifest(folder)
    plan = _Run(folder)
    for entry in entries:
        path = folder / f"{entry.stem}.{format}"
        last = known.get(path.name, {})
        taken = replace(entry, seed=_seed(entry, last, again and not context.options.seed))
        try:
            script = _script(context, engine, taken, main)
        except _Unsayable as error:
            plan.failed.append(_Failed(taken, error.message, error.hint))
            continue
        made_of = make_key(
            lines=[_plain(segment) for segment in script.segments],
            engine=engine.name, version=engine.found.version, weights=engine.found.fingerprint,
            options=engine.options, format=format, loudness=voicing.loudness(context),
            recordings=_recordings(engine, script),
        )  # fmt: skip
        if not again and path.exists() and last.get("key") == made_of:
            plan.num_there += 1
            continue
        anew = again or context.options.fresh
        plan.jobs.append(_Job(taken, script, made_of, path, anew, entry.seed))
    return plan


def _seed(entry: Entry, last: dict[str, Any], another: bool) -> int:
    """The seed of the take that is there, unless the file asks for a new one; another on demand."""
    seed = int(last["seed"]) if last.get("asked") == entry.seed else entry.seed
    return seed + 1 if another else seed


def _plain(segment: Segment) -> list[Any]:
    line = segment.line
    return [
        line.text, line.language, line.voice, line.rate, line.seed, segment.pause_before_s,
        segment.pause_after_s,
    ]  # fmt: skip


def _recordings(engine: speaker.Chosen, script: Script) -> list[str]:
    """What its voices are made from: another recording under the same name is another voice."""
    named = {segment.line.voice for segment in script.segments}
    voices = [voice for voice in engine.found.voices if "" in named or voice.name in named]
    return [voice.digest for voice in voices if voice.digest]


class _Unsayable(UnspeakableTextError):
    """A text that costs its own file and no other."""


def _script(context: Context, engine: speaker.Chosen, entry: Entry, main: str) -> Script:
    from anyrig.speech.tongues import matched

    given = {
        "voice": entry.voice, "language": entry.language, "rate": entry.rate,
        "seed": entry.seed + (context.options.seed or 0),
    }  # fmt: skip
    if entry.voice:
        _check_voice(entry, engine)
    more: dict[str, Any] = {k: v for k, v in given.items() if v}
    try:
        return voicing.script(context, engine, entry.text, default_language=main, **more)
    except InvalidInputError as error:
        if _is_short(error, entry) and matched(main, engine.found.languages):
            return _read_as(context, engine, entry, main, more)
        raise _Unsayable(error.message, hint=error.hint) from error


def _check_voice(entry: Entry, engine: speaker.Chosen) -> None:
    try:
        speaker.checked_voice(entry.voice, engine)
    except AnyrigError as error:
        error.message = f"entry {entry.stem}: {error.message}"
        raise


def _is_short(error: InvalidInputError, entry: Entry) -> bool:
    """Whether a text was refused for a guess at its language, and is too short to be sure of."""
    from anyrig.errors import UnsupportedLanguageError
    from anyrig.speech.tongues import PARAGRAPH_WORDS
    from anyrig.text.language import num_words

    guessed = isinstance(error.__cause__, UnsupportedLanguageError) and not entry.language
    return guessed and num_words(entry.text) < PARAGRAPH_WORDS


def _read_as(
    context: Context, engine: speaker.Chosen, entry: Entry, main: str, more: dict[str, Any]
) -> Script:
    """A short text in the language of the list, with a warning."""
    from anyrig.speech.tongues import beginning, title
    from anyrig.text.language import detect

    seems = title(detect(entry.text, default=main).language)
    script = voicing.script(context, engine, entry.text, **(more | {"language": main}))
    words = f"{beginning(entry.text)!r} seems to be {seems} and is read as {title(main)}"
    return replace(script, warnings=(words, *script.warnings))


# ---------------------------------------------------------------- making and writing


def _spoken(studio: Studio, jobs: Sequence[_Job]) -> Iterator[tuple[_Job, list[Spoken]]]:
    """Each entry once all its segments are there; all entries share the workers."""
    for anew in (False, True):
        some = [job for job in jobs if job.again == anew]
        segments = [segment for job in some for segment in job.script.segments]
        takes = studio.takes(segments, anew=anew)
        for job in some:
            yield job, [next(takes) for _ in job.script.segments]
        takes.close()


def _written(job: _Job, parts: Sequence[Spoken], rate: int, format: str, context: Context) -> float:
    """An entry's file, then its line in the manifest; the seconds it lasts."""
    from anyrig.speech.synthesise import chunk_of

    chunks = [chunk_of(part, rate, 0).samples for part in parts]
    count = write_samples(job.path, format, rate, chunks, loudness=voicing.loudness(context))
    _remember(job)
    return count / rate


def _remember(job: _Job) -> None:
    row = {
        "file": job.path.name, "key": job.key, "seed": job.entry.seed, "asked": job.asked,
        "text": job.entry.text,
    }  # fmt: skip
    told = json.dumps(row, ensure_ascii=False).encode() + b"\n"
    with (job.path.parent / MANIFEST).open("ab+") as file:
        # A line that a kill cut off must not swallow this one.
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
            told = b"\n" + told
        file.write(told)


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """What each file was made of, the last word counting; a line cut off in mid-writing is none."""
    found: dict[str, dict[str, Any]] = {}
    try:
        rows = (folder / MANIFEST).read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return found
    for row in rows:
        try:
            data = json.loads(row)
            found[str(data["file"])] = {**data, "seed": int(data["seed"])}
        except (ValueError, TypeError, KeyError):
            continue
    return found
