"""`anyrig transcribe`: recordings to text, plain, with times or as captions."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.transcription import (
    TranscribedFile,
    TranscriptionProgress,
    TranscriptionRequest,
    TranscriptionResult,
    plan_outputs,
    queue_transcriptions,
    transcribe,
)
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import (
    EventPrinter,
    failed_to_json,
    print_json,
    print_line,
    report_failed,
)
from anyrig.cli.rig import open_rig
from anyrig.errors import InvalidInputError, mention
from anyrig.recognise.forms import plain, written
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.app.events import Event
    from anyrig.app.rig import Rig
    from anyrig.app.transcription import OutputPlan

HELP = """Transcribe recordings of any length: wav, flac, mp3, ogg, opus, m4a, m4b, mp4, webm and
other formats. The language is detected unless --language names it; moonshine transcribes English
and Whisper base other languages, unless --model names a folder or a model of the hub, which --fetch
downloads. With -o the text is written to a file, or to a folder for several recordings; otherwise
it is printed. txt has paragraphs, md has times as well, srt and vtt are captions, json has
everything. Results are cached: a run that was interrupted continues where it stopped."""
MIXED = True
_JSON_INTERVAL_S = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, TranscriptionRequest)
    parser.add_argument("--queue", action="store_true", help="queue it: `anyrig jobs run` runs it")


def run(arguments: argparse.Namespace) -> int:
    with _Printer(is_json=arguments.json) as printer:
        rig = open_rig(arguments, printer)
        given = read_flags(arguments, TranscriptionRequest)
        request = rig.request(TranscriptionRequest, **given)
        if arguments.queue:
            return _queue(rig, request, printer, is_json=arguments.json)
        plan = plan_outputs(request, printer)
        if plan.output is None:
            _check_printable(plan, is_json=arguments.json)
        return _run(rig, request, plan, printer, is_json=arguments.json)


def _run(
    rig: Rig,
    request: TranscriptionRequest,
    plan: OutputPlan,
    printer: EventPrinter,
    *,
    is_json: bool,
) -> int:
    began = time.monotonic()
    files = []
    for file in transcribe(rig, request, printer, plan):
        files.append(file)
        if file.transcript is not None and not is_json:
            printer.pause()
            if plan.output is None:
                sys.stdout.write(written(file.transcript, plan.formats[0]))
                sys.stdout.flush()
            out = sys.stdout if file.outputs else sys.stderr
            print(_describe(file), file=out)
    result = TranscriptionResult(tuple(files))
    if is_json:
        print_line("done", {
            **_report(result, with_transcripts=plan.output is None),
            "wall_s": round(time.monotonic() - began, 3),
            "failed": failed_to_json(result.failed),
        })  # fmt: skip
    printer.pause()
    has_gaps = any(one.gaps for one in result.transcripts)
    return report_failed(result.failed, len(files), "recording") or int(has_gaps)


def _check_printable(plan: OutputPlan, *, is_json: bool) -> None:
    if len(plan.recordings) > 1 and not is_json:
        raise InvalidInputError(
            f"{len(plan.recordings)} transcripts cannot be printed",
            hint=f"Pass a folder with {mention('output')}, or {mention('json')}.",
        )
    if len(plan.formats) > 1:
        raise InvalidInputError(
            "several formats cannot be printed", hint=f"Pass a path with {mention('output')}."
        )


def _describe(file: TranscribedFile) -> str:
    transcript = file.transcript
    assert transcript is not None
    facts = [f"{transcript.duration_s / max(file.wall_s, 1e-3):.1f} times real time"]
    if transcript.num_kept:
        segments = pluralize(len(transcript.pieces), "segment")
        facts.append(f"{transcript.num_kept} of {segments} cached")
    facts.append(f"by {transcript.model}")
    facts.append(": ".join(filter(None, (transcript.language, transcript.language_reason))))
    names = ", ".join(map(str, file.outputs)) or transcript.name
    times = f"{format_duration(transcript.duration_s)} in {format_duration(file.wall_s)}"
    return f"{names}: {times} ({', '.join(facts)})"


def _report(result: TranscriptionResult, *, with_transcripts: bool) -> dict[str, Any]:
    transcripts = result.transcripts
    only = transcripts[0] if len(transcripts) == 1 else None
    report: dict[str, Any] = {
        "files": [str(path) for one in result.files for path in one.outputs],
        "language": only.language if only else None,
        "engine": only.model if only else None,
        "audio_s": round(sum(one.duration_s for one in transcripts), 3),
        "kept": sum(one.num_kept for one in transcripts),
    }
    if with_transcripts:
        report["transcripts"] = [plain(one) for one in transcripts]
    return report


def _queue(rig: Rig, request: TranscriptionRequest, printer: EventPrinter, *, is_json: bool) -> int:
    jobs = queue_transcriptions(rig, request, printer)
    if is_json:
        print_json([job.to_json() for job in jobs])
    else:
        for job in jobs:
            name = Path(str(job.arguments["file"])).name
            print(f"{job.id}: {name} is queued; `anyrig jobs run` runs it")
    return 0


class _Printer(EventPrinter):
    """Progress with the speed of each recording, cached segments not counted."""

    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json, self._next_json = is_json, 0.0
        self._file_began = time.monotonic()
        self._cached_s = 0.0

    def __call__(self, event: Event) -> None:
        if not isinstance(event, TranscriptionProgress):
            super().__call__(event)
            return
        if event.stage == "opening":
            self._file_began, self._cached_s = time.monotonic(), 0.0
            if not self._is_json:
                super().__call__(replace(event, detail=event.file))
            return
        if event.cached:
            self._cached_s = event.heard_s
        spent_s = time.monotonic() - self._file_began
        fresh_s = event.heard_s - self._cached_s
        speed = fresh_s / spent_s if fresh_s > 0 and spent_s > 0 else None
        if self._is_json:
            self._print_json(event, speed)
        else:
            rate = f"{speed:.1f} times real time, " if speed else ""
            detail = f"{rate}{event.file}  {event.detail}"
            super().__call__(replace(event, detail=detail))

    def _print_json(self, event: TranscriptionProgress, speed: float | None) -> None:
        if time.monotonic() < self._next_json:
            return
        self._next_json = time.monotonic() + _JSON_INTERVAL_S
        done = left_s = None
        if event.duration_s:
            share = min(1.0, event.heard_s / event.duration_s)
            done = round((event.number - 1 + share) / event.num_files, 4)
            if speed:
                left_s = round(max(0.0, event.duration_s - event.heard_s) / speed, 1)
        print_line("progress", {
            "stage": event.stage, "title": event.file, "done": done,
            "audio_s": round(event.heard_s, 2),
            "speed": None if speed is None else round(speed, 2),
            "left_s": left_s, "text": event.detail,
        })  # fmt: skip
