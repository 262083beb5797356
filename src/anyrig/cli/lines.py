"""`anyrig speak --lines`: many texts, an audio file for each; cut off and resumed as one likes.

Beside the files lies `lines.jsonl`: what each was made of. An entry whose file is there and was
made of the same is left alone, so a run that was cut off goes on where it stopped, and a changed
line, voice or lexicon makes that entry again and no other.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.deliver import checked_format, write_samples
from anyrig.cli.keep import keeping
from anyrig.cli.show import Progress, print_json, print_warning
from anyrig.errors import AnyrigError, BadInput, WorkFailed
from anyrig.units import plural, seconds_text

if TYPE_CHECKING:
    from anyrig.speech.script import Script, Segment
    from anyrig.speech.synthesise import Spoken, Studio

MANIFEST = "lines.jsonl"
_KNOWN = ("id", "text", "voice", "language", "rate", "seed")
_LOOKED_AT = 50  # lines, to tell the language by
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*]')


@dataclass(frozen=True)
class Entry:
    """One text of the file."""

    number: int
    """From 1, blank lines not counted."""
    text: str
    id: str = ""
    voice: str = ""
    language: str = ""
    rate: float = 0.0
    seed: int = 0

    @property
    def stem(self) -> str:
        """The name of its file."""
        return self.id or f"{self.number:04d}"


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


@dataclass
class _Run:
    """How far it went."""

    folder: Path
    num_there: int
    num_made: int = 0
    audio_s: float = 0.0
    failed: list[tuple[_Job, tuple[str, ...]]] = field(default_factory=list)


def run(context: Context) -> int:
    """Speak every entry that is not there yet."""
    options = context.options
    _check_flags(options)
    entries = read(Path(options.lines).expanduser())
    folder = Path(options.output or Path(options.lines).stem).expanduser()
    format = checked_format(None, options.format or "wav")
    only = chosen(entries, options.only) if options.only else set()
    sample = " ".join(entry.text for entry in entries[:_LOOKED_AT])
    engine = speaker.chosen(context, speaker.language_of(context, sample))
    with Progress(1, "text") as progress:
        progress.step("looking at what is there")
        jobs, num_there = _jobs(context, engine, entries, only, folder, format)
    if options.dry_run:
        return _show(context, jobs, num_there)
    made = _Run(folder, num_there)
    if jobs:
        _make_folder(folder)
        _make(context, engine, jobs, format, made)
    _report(context, engine, made)
    return 0


def _check_flags(options: argparse.Namespace) -> None:
    given = {
        "a text": options.words, "-f": options.file, "--play": options.play,
        "--verify": options.verify,
    }  # fmt: skip
    for name, value in given.items():
        if value:
            raise BadInput(f"--lines and {name} were both given", hint=f"Leave {name} out.")
    if options.output == "-":
        raise BadInput("--lines writes many files", hint="-o names the folder they go into.")


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file", hint="With --lines, -o names a folder.")
    folder.mkdir(parents=True, exist_ok=True)


def _make(
    context: Context, engine: speaker.Chosen, jobs: Sequence[_Job], format: str, made: _Run
) -> None:
    length = sum(len(job.entry.text) for job in jobs)
    with ExitStack() as stack:
        store = stack.enter_context(keeping(context))
        studio = stack.enter_context(voicing.studio(context, engine, length, store))
        progress = stack.enter_context(Progress(len(jobs), "line"))
        progress.step("loading the voice")
        for job, audio, problems in _spoken(studio, jobs):
            progress.done()
            progress.step(job.entry.text[:48])
            if audio is None:
                made.failed.append((job, problems))
                continue
            for problem in problems:
                print_warning(f"{job.path.name}: {problem}")
            made.audio_s += _written(job, audio, studio.rate, format, context)
            made.num_made += 1


def _show(context: Context, jobs: Sequence[_Job], num_there: int) -> int:
    said = [(job, " ".join(part.line.text for part in job.script.segments)) for job in jobs]
    if context.options.json:
        rows = [{"file": job.path.name, "text": job.entry.text, "spoken": text}
                for job, text in said]  # fmt: skip
        print_json({"lines": rows, "left": num_there})
        return 0
    for job, text in said:
        print(f"{job.path.name}  {text}")
    if num_there:
        print(f"{plural(num_there, 'file')} already there")
    return 0


def _report(context: Context, engine: speaker.Chosen, made: _Run) -> None:
    """What was made; an error when something was not."""
    if context.options.json:
        print_json({
            "folder": str(made.folder), "engine": engine.name, "made": made.num_made,
            "left": made.num_there, "failed": [job.entry.stem for job, _ in made.failed],
            "audio_s": round(made.audio_s, 3),
        })  # fmt: skip
    else:
        parts = []
        if made.num_made:
            lasts = seconds_text(made.audio_s)
            parts.append(f"{plural(made.num_made, 'file')}, {lasts} of speech")
        if made.num_there:
            parts.append(f"{plural(made.num_there, 'file')} already there")
        if engine.why:
            parts.append(f"by {engine.name}: {engine.why}")
        print(f"{made.folder}: {', '.join(parts) or 'nothing was made'}")
    if made.failed:
        job, problems = made.failed[0]
        raise WorkFailed(
            f"{plural(len(made.failed), 'line')} could not be spoken; the first, "
            f"{job.entry.stem}: {'; '.join(problems)}",
            hint="The others are written. Run the command again to try the rest.",
        )


# ---------------------------------------------------------------- what is to be made


def read(path: Path) -> list[Entry]:
    """The entries of a file: lines of text, or of JSON where the name says so."""
    text = voicing.read_text(path)
    rows = [(n, row.strip()) for n, row in enumerate(text.splitlines(), 1) if row.strip()]
    if not rows:
        raise BadInput(f"{path} holds no line", hint="A line for each audio file, please.")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        entries = [_entry(i, n, row, path) for i, (n, row) in enumerate(rows, 1)]
    else:
        entries = [Entry(i, row) for i, (_, row) in enumerate(rows, 1)]
    seen: dict[str, int] = {}
    for entry in entries:
        low = entry.stem.lower()  # one file on systems that do not tell the case
        if low in seen:
            raise BadInput(
                f"{path}: entries {seen[low]} and {entry.number} would both be {entry.stem}",
                hint="Give each its own id.",
            )
        seen[low] = entry.number
    return entries


def _entry(number: int, row: int, text: str, path: Path) -> Entry:
    where = f"{path}, line {row}"
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BadInput(
            f"{where} is no JSON: {error}", hint='{"id": "a", "text": "Hello."}'
        ) from None
    if not isinstance(data, dict) or not isinstance(data.get("text"), str):
        raise BadInput(f"{where} has no text", hint='{"id": "a", "text": "Hello."}')
    for name in data:
        if name not in _KNOWN:
            raise BadInput(f"{where}: no field {name!r}", hint=f"There are: {', '.join(_KNOWN)}.")
    entry_id = str(data.get("id", ""))
    if _FORBIDDEN.search(entry_id) or entry_id in (".", "..") or len(entry_id) > 200:
        raise BadInput(
            f"{where}: the id {entry_id[:40]!r} is no file name", hint="Letters, digits."
        )
    try:
        speed, seed = float(data.get("rate", 0)), int(data.get("seed", 0))
    except (TypeError, ValueError):
        raise BadInput(f"{where}: rate and seed are numbers", hint='"rate": 1.1') from None
    if speed and not 0.25 <= speed <= 4:
        raise BadInput(f"{where}: rate is {speed:g}", hint="It goes from 0.25 to 4.")
    voice, language = str(data.get("voice", "")), str(data.get("language", ""))
    return Entry(number, data["text"], entry_id, voice, language, speed, seed)


def chosen(entries: Sequence[Entry], asked: str) -> set[int]:
    """The numbers that `--only` names: 3,7 or 3-5, or ids."""
    by_id = {entry.id: entry.number for entry in entries if entry.id}
    found: set[int] = set()
    for word in filter(None, (part.strip() for part in asked.split(","))):
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if word in by_id:
            found.add(by_id[word])
        elif span and 1 <= int(span[1]) <= int(span[2] or span[1]) <= len(entries):
            found |= set(range(int(span[1]), int(span[2] or span[1]) + 1))
        else:
            raise BadInput(
                f"--only {word}: no such entry", hint=f"There are 1 to {len(entries)}, or ids."
            )
    if not found:
        raise BadInput("--only names nothing", hint="Such as --only 3,7.")
    return found


def _jobs(
    context: Context,
    engine: speaker.Chosen,
    entries: Sequence[Entry],
    only: set[int],
    folder: Path,
    format: str,
) -> tuple[list[_Job], int]:
    """What is to be made, and how many are there already."""
    from anyrig.store.key import key

    known = _manifest(folder)
    jobs: list[_Job] = []
    left = 0
    for entry in entries:
        if only and entry.number not in only:
            continue
        path = folder / f"{entry.stem}.{format}"
        last = known.get(path.name, {})
        again = entry.number in only
        taken = replace(entry, seed=_seed(entry, last, again and not context.options.seed))
        script = _script(context, engine, taken)
        made_of = key(
            lines=[_plain(segment) for segment in script.segments],
            engine=engine.name, version=engine.found.version, weights=engine.found.fingerprint,
            options=engine.options, format=format, loudness=voicing.loudness(context),
        )  # fmt: skip
        if not again and path.exists() and last.get("key") == made_of:
            left += 1
            continue
        jobs.append(_Job(taken, script, made_of, path, again or context.options.fresh, entry.seed))
    return jobs, left


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


def _script(context: Context, engine: speaker.Chosen, entry: Entry) -> Script:
    given = {
        "voice": entry.voice, "language": entry.language, "rate": entry.rate,
        "seed": entry.seed + (context.options.seed or 0),
    }  # fmt: skip
    try:
        if entry.voice:
            speaker.checked_voice(entry.voice, engine)
        return voicing.script(context, engine, entry.text, **{k: v for k, v in given.items() if v})
    except AnyrigError as error:
        error.message = f"entry {entry.stem}: {error.message}"
        raise


# ---------------------------------------------------------------- making and writing


def _spoken(
    studio: Studio, jobs: Sequence[_Job]
) -> Iterator[tuple[_Job, list[Spoken] | None, tuple[str, ...]]]:
    """Each entry once all its segments are there; all entries share the workers."""
    for anew in (False, True):
        some = [job for job in jobs if job.again == anew]
        segments = [segment for job in some for segment in job.script.segments]
        takes = studio.takes(segments, anew=anew)
        for job in some:
            parts = [next(takes) for _ in job.script.segments]
            failed = tuple(part.failure.said for part in parts if part.failure is not None)
            problems = tuple(problem for part in parts for problem in part.problems)
            yield (job, None, failed) if failed else (job, parts, problems)
        takes.close()


def _written(job: _Job, parts: Sequence[Spoken], rate: int, format: str, context: Context) -> float:
    """An entry's file, then its line in the manifest; the seconds it lasts."""
    from anyrig.speech.synthesise import chunk_of

    last = len(parts) - 1
    chunks = [chunk_of(part, rate, 0, is_last=n == last).samples for n, part in enumerate(parts)]
    count = write_samples(job.path, format, rate, chunks, loudness=voicing.loudness(context))
    _remember(job)
    return count / rate


def _remember(job: _Job) -> None:
    row = {
        "file": job.path.name, "key": job.key, "seed": job.entry.seed, "asked": job.asked,
        "text": job.entry.text,
    }  # fmt: skip
    with (job.path.parent / MANIFEST).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """What each file was made of, the last word counting; a line cut off in mid-writing is none."""
    found: dict[str, dict[str, Any]] = {}
    try:
        rows = (folder / MANIFEST).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return found
    for row in rows:
        try:
            data = json.loads(row)
            found[str(data["file"])] = {**data, "seed": int(data["seed"])}
        except (ValueError, TypeError, KeyError):
            continue
    return found
