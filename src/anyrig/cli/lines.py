"""`anyrig speak --lines`: many texts, an audio file for each; cut off and resumed as one likes.

Beside the files lies `lines.jsonl`: what each was made of. An entry whose file is there and was
made of the same is left alone, so a run that was cut off goes on where it stopped, and a changed
line, voice or lexicon makes that entry again and no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import voicing
from anyrig.cli.cache import open_store
from anyrig.cli.context import Context
from anyrig.cli.deliver import checked_format, write_samples
from anyrig.cli.show import Progress, print_json, print_warning
from anyrig.errors import AnyrigError, BadInput, WorkFailed
from anyrig.units import plural, seconds_text

if TYPE_CHECKING:
    from anyrig.speech.script import Script, Segment
    from anyrig.speech.synthesise import Spoken, Studio

MANIFEST = "lines.jsonl"
_KNOWN = ("id", "text", "voice", "language", "rate", "seed")
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


def run(context: Context) -> int:
    """Speak every entry that is not there yet."""
    options = context.options
    if options.words or options.file or options.play or options.verify:
        raise BadInput(
            "--lines goes with neither a text, -f, --play nor --verify", hint="Leave that out."
        )
    entries = read(Path(options.lines).expanduser())
    folder = Path(options.output or Path(options.lines).stem).expanduser()
    format = checked_format(None, options.format or "wav")
    only = chosen(entries, options.only) if options.only else set()
    engine = voicing.chosen(
        context, voicing.language_of(context, " ".join(e.text for e in entries[:50]))
    )
    made, failed, audio_s = 0, [], 0.0
    folder.mkdir(parents=True, exist_ok=True)
    jobs, left = _jobs(context, engine, entries, only, folder, format)
    if options.dry_run:
        return _show(jobs, left)
    if jobs:
        length = sum(len(job.entry.text) for job in jobs)
        with open_store(context) as store, voicing.studio(context, engine, length, store) as studio:
            with Progress(len(jobs), "line") as progress:
                for job, audio, problems in _spoken(studio, jobs):
                    progress.done()
                    progress.step(job.entry.text[:48])
                    if audio is None:
                        failed.append((job, problems))
                        continue
                    for problem in problems:
                        print_warning(f"{job.path.name}: {problem}")
                    audio_s += _written(job, audio, studio.rate, format, context)
                    made += 1
            for warning in studio.warnings:
                print_warning(warning)
    _report(context, folder, made, left, audio_s)
    if failed:
        job, problems = failed[0]
        raise WorkFailed(
            f"{plural(len(failed), 'line')} could not be spoken; the first, {job.entry.stem}: "
            f"{'; '.join(problems)}",
            hint="The others are written. Run the command again to try the rest.",
        )
    return 0


def _show(jobs: Sequence[_Job], left: int) -> int:
    for job in jobs:
        said = " ".join(segment.line.text for segment in job.script.segments)
        print(f"{job.path.name}  {said}")
    if left:
        print(f"{plural(left, 'line')} already there")
    return 0


def _report(context: Context, folder: Path, made: int, left: int, audio_s: float) -> None:
    if context.options.json:
        told = {"folder": str(folder), "made": made, "left": left, "audio_s": round(audio_s, 3)}
        print_json(told)
        return
    there = f", {left} already there" if left else ""
    print(f"{folder}: {plural(made, 'file')}, {seconds_text(audio_s)} of speech{there}")


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
    engine: voicing.Chosen,
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


def _script(context: Context, engine: voicing.Chosen, entry: Entry) -> Script:
    given = {
        "voice": entry.voice, "language": entry.language, "rate": entry.rate,
        "seed": entry.seed + (context.options.seed or 0),
    }  # fmt: skip
    try:
        if entry.voice:
            voicing.checked_voice(entry.voice, engine)
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
