"""`anyrig transcribe`: recordings to text, plain, with times or as captions."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

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
    print_line,
    report_failed,
)
from anyrig.cli.rig import open_rig
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.transcription.formats import describe, format_transcription
from anyrig.units import format_duration, format_speed, pluralize

if TYPE_CHECKING:
    from anyrig.app.transcription import OutputPlan
    from anyrig.events import Event

HELP = """Transcribe recordings of any length: wav, flac, mp3, ogg, opus, m4a, m4b, mp4, webm and
other formats. The language is detected unless --language names it; moonshine transcribes English
and Whisper base other languages, unless --model names a folder or a model of the hub, which --fetch
downloads. With -o the text is written to a file, or to a folder for several recordings; otherwise
it is printed. txt has paragraphs, md has times as well, srt and vtt are captions, json has
everything. Results are cached: a run that was interrupted continues where it stopped."""
RESUME = "Finished parts are cached: the same command continues."
MIXED = True


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, TranscriptionRequest)
    parser.add_argument("--queue", action="store_true", help="queue it; `anyrig jobs run` runs it")


def run(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    with _Printer(json_lines=arguments.json) as printer:
        rig = open_rig(arguments, printer)
        given = read_flags(arguments, TranscriptionRequest)
        if arguments.queue:
            from anyrig.cli.jobs import print_queued

            jobs = queue_transcriptions(rig, given, printer)
            return print_queued(jobs, as_json=arguments.json, as_list=True)
        request = rig.request(TranscriptionRequest, **given)
        plan = plan_outputs(request, printer)
        if plan.output is None:
            _check_printable(plan, is_json=arguments.json)
        files = []
        for file in transcribe(rig, request, printer, plan):
            files.append(file)
            if file.transcript is not None and not arguments.json:
                printer.pause()
                if plan.output is None:
                    sys.stdout.write(format_transcription(file.transcript, plan.formats[0]))
                    sys.stdout.flush()
                print(_describe(file), file=sys.stdout if file.outputs else sys.stderr)
    result = TranscriptionResult(tuple(files))
    if arguments.json:
        transcripts = [] if plan.output else [describe(one) for one in result.transcripts]
        print_line("done", {
            **result.to_json(), **({} if plan.output else {"transcripts": transcripts}),
            "wall_s": round(time.monotonic() - began, 3), "failed": failed_to_json(result.failed),
        })  # fmt: skip
    has_gaps = any(one.gaps for one in result.transcripts)
    return report_failed(result.failed, len(files), "recording") or int(has_gaps)


def _check_printable(plan: OutputPlan, *, is_json: bool) -> None:
    if len(plan.recordings) > 1 and not is_json:
        raise InvalidInputError(
            f"{len(plan.recordings)} transcripts cannot be printed",
            hint=Message(
                "Pass a folder with {output}, or {json}.",
                output=OptionRef("output"),
                json=OptionRef("json"),
            ),
        )
    if len(plan.formats) > 1:
        raise InvalidInputError(
            "several formats cannot be printed",
            hint=Message("Pass a path with {output}.", output=OptionRef("output")),
        )


def _describe(file: TranscribedFile) -> str:
    transcript = file.transcript
    assert transcript is not None
    facts = [format_speed(transcript.duration_s, file.wall_s)]
    if transcript.num_cached:
        segments = pluralize(len(transcript.chunks), "segment")
        facts.append(f"{transcript.num_cached} of {segments} cached")
    facts.append(f"by {transcript.model}")
    facts.append(": ".join(filter(None, (transcript.language, transcript.language_reason))))
    names = ", ".join(map(str, file.outputs)) or transcript.name
    times = f"{format_duration(transcript.duration_s)} in {format_duration(file.wall_s)}"
    return f"{names}: {times} ({', '.join(facts)})"


class _Printer(EventPrinter):
    """Progress with the speed of each recording, cached segments not counted."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, TranscriptionProgress) and event.stage == "opening":
            if self._json_lines:
                return
            event = replace(event, detail=event.file)
        elif isinstance(event, TranscriptionProgress) and not self._json_lines:
            rate = f"{format_speed(event.speed)}, " if event.speed else ""
            event = replace(event, detail=f"{rate}{event.file}  {event.detail}")
        super().__call__(event)
