"""`anyrig speak`: text in, audio out: played, written to a file, or one file for each line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.app import speech
from anyrig.app.files import check_writable, find_unused_name
from anyrig.app.speech import Speech, SpeechRequest, resolve_format
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, print_json, print_warning
from anyrig.cli.prompts import offer_voice
from anyrig.cli.rig import open_rig
from anyrig.cli.text_input import looks_like_path, read_input
from anyrig.errors import (
    InvalidInputError,
    Message,
    MissingPackageError,
    MissingVoiceError,
    OptionRef,
    UnspeakableTextError,
    WorkError,
)
from anyrig.events import warn_some
from anyrig.results import to_json
from anyrig.units import format_duration, format_speed, pluralize

if TYPE_CHECKING:
    from anyrig.app.batch import BatchResult
    from anyrig.app.rig import Rig
    from anyrig.app.speech import SegmentCheck, WordCheck
    from anyrig.app.word_times import CaptionKind
    from anyrig.audio.samples import Samples
    from anyrig.speech.batch import FailedLine

HELP = """Speak a text: the words on the command line, a file with -f, or standard input. With -o it
is written to a file (wav, flac, mp3, opus, m4a; - is standard output); without, it is played, or
written to speech.wav where nothing can play it. --lines FILE speaks each line of a file (or each
entry of a JSONL file with text, id and voice) into a file of its own, in the folder that -o names;
an interrupted run continues where it stopped, and --only 3,7 makes entries again. Finished speech
is cached and is there at once the next time."""
RESUME = "What was spoken is cached: the same command continues."
MIXED = True
_MAX_WARNINGS = 8
_MAX_DIFFERENCES = 6


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TEXT", help="what to say")
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="read the text from a file; - is stdin"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the audio to this file; - is stdout"
    )
    parser.add_argument(
        "--format", metavar="NAME", help="wav, flac, mp3, opus, m4a, aac or pcm; default: by suffix"
    )
    parser.add_argument("--play", action="store_true", help="play the audio even with -o")
    parser.add_argument(
        "--lines", metavar="FILE", help="text or JSONL file; write an audio file per line"
    )
    parser.add_argument(
        "--only", metavar="LIST", help="with --lines: make these again, such as 3,7 or 3-5"
    )
    parser.add_argument(
        "--verify", action="store_true", help="transcribe each segment and report wrong words"
    )
    parser.add_argument(
        "--captions", metavar="LIST",
        help="write when each word is heard beside the audio file: srt, vtt, json",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be said, segment by segment"
    )
    parser.add_argument(
        "--queue", action="store_true", help="with --lines: queue it; `anyrig jobs run` runs it"
    )
    parser.add_argument(
        "--events", action="store_true", help="with --lines and --json: a JSON line for each event"
    )
    add_flags(parser, SpeechRequest, exclude=("text",))


def run(arguments: argparse.Namespace) -> int:
    if arguments.lines:
        return _run_lines(arguments)
    for flag in ("queue", "events", "only"):
        if getattr(arguments, flag):
            raise InvalidInputError(
                f"--{flag} requires --lines", hint=f"`anyrig speak --lines FILE --{flag} ...`."
            )
    text = _read_words(arguments)
    if not text.strip():
        raise UnspeakableTextError("the text is empty", hint='anyrig speak "Hello."')
    with EventPrinter() as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(SpeechRequest, text=text, **read_flags(arguments, SpeechRequest))
        if arguments.dry_run:
            return _print_script(rig, request, arguments)
        try:
            return _speak(rig, request, arguments, printer)
        except MissingVoiceError as error:
            offer_voice(error, rig, printer, ask=not arguments.json)
        return _speak(rig, request, arguments, printer)


# -- one text --------------------------------------------------------------------------------------


class _AudioTarget(NamedTuple):
    """Where the audio goes: a file, a player, standard output."""

    path: Path | None
    format: str
    play: bool = False


def _choose_target(output: str | None, format: str | None, play: bool) -> _AudioTarget:
    """What was requested; otherwise a player, or a file where nothing can play."""
    if output == "-":
        if play:
            raise InvalidInputError("-o - and --play were both given", hint="Give one of them.")
        return _AudioTarget(None, resolve_format(format))
    if output is None and (play or (sys.stdout is not None and sys.stdout.isatty())):
        from anyrig.audio.playback import find_player

        try:
            find_player()  # reports a missing player before anything is computed
            return _AudioTarget(None, "wav", play=True)
        except MissingPackageError:
            if play:
                raise
    if output is not None:
        path = Path(output).expanduser()
    else:
        path = find_unused_name(Path(f"speech.{resolve_format(format)}"))
    check_writable(path)
    return _AudioTarget(path, resolve_format(format, path), play)


def _speak(
    rig: Rig, request: SpeechRequest, arguments: argparse.Namespace, printer: EventPrinter
) -> int:
    target = _choose_target(arguments.output, arguments.format, arguments.play)
    captions = _parse_captions(arguments.captions, target)
    with speech.stream(rig, request, printer, listening=target.path is None) as (made, chunks):
        if arguments.verify:
            speech.check_recognisers(made.script)
        if captions:
            from anyrig.app.word_times import check_word_times

            check_word_times(made.engine, made.script)
        if target.play or target.path is None:
            _play((chunk.samples for chunk in chunks), made, target)
        else:
            for _ in chunks:
                pass
    with made:
        if target.path is not None:
            made.save(target.path, target.format)
        written: list[Path] = []
        if captions and target.path is not None:
            from anyrig.app.word_times import write_captions

            written = write_captions(made, target.path, captions)
        check = speech.check_words(rig, made, request, printer) if arguments.verify else None
    doubtful = [f"{'; '.join(take.problems)}: {take.segment.text.strip()[:60]!r}"
                for take in made.stats.doubtful]  # fmt: skip
    warn_some(
        printer, doubtful, Message("may sound wrong; {json} lists them all", json=OptionRef("json"))
    )
    if arguments.json:
        print_json({
            "file": str(target.path) if target.path else None, **made.to_json(),
            "verified": to_json(check), "captions": [str(path) for path in written],
        })  # fmt: skip
        return 0
    _report(made, target.path, check)
    for path in written:
        print(f"{path}: {pluralize(len(made.words), 'word')}, {made.timing} times")
    return 0


def _parse_captions(given: str | None, target: _AudioTarget) -> list[CaptionKind]:
    if not given:
        return []
    from anyrig.app.word_times import CAPTION_KINDS

    if target.path is None:
        raise InvalidInputError(
            "--captions writes files beside the audio file", hint="Pass -o FILE."
        )
    names = dict.fromkeys(filter(None, re.split(r"[,\s]+", given.lower())))
    for name in names:
        if name not in CAPTION_KINDS:
            raise InvalidInputError(
                f"unknown captions {name!r}", hint=f"Valid names: {', '.join(CAPTION_KINDS)}."
            )
    return [kind for kind in CAPTION_KINDS if kind in names]


def _play(parts: Iterator[Samples], made: Speech, target: _AudioTarget) -> None:
    """Play or pipe the audio while it is made; its loudness is adjusted as it goes."""
    from anyrig.audio.encode import open_encoder
    from anyrig.audio.loudness import Leveller
    from anyrig.audio.playback import play

    if made.loudness:
        parts = map(Leveller(made.sample_rate, target_lufs=made.loudness).apply, parts)
    if target.play:
        play(parts, made.sample_rate)
        return
    with open_encoder(sys.stdout.buffer, format=target.format, rate=made.sample_rate) as output:
        for part in parts:
            output.write(part)
            sys.stdout.buffer.flush()


def _report(made: Speech, path: Path | None, check: WordCheck | None) -> None:
    lines = [f"{path}: " if path else ""]
    facts = [format_speed(made.audio_s, made.wall_s)]
    if made.stats.num_cached:
        facts.append(f"{made.stats.num_cached} of {made.stats.num_segments} cached")
    if made.workers:
        facts.append(f"made by {made.workers}")
    if made.engine.reason:
        facts.append(f"by {made.engine.name}: {made.engine.reason}")
    duration = f"{format_duration(made.audio_s)} of speech in {format_duration(made.wall_s)}"
    lines[0] += f"{duration} ({', '.join(facts)})"
    if check is not None:
        lines += map(_format_check, check.segments)
        segments = pluralize(len(check.segments), "segment")
        lines.append(f"recognised by {check.recogniser}: {_count_errors(check)}, in {segments}")
    print("\n".join(lines), file=sys.stdout if path else sys.stderr)


def _count_errors(check: WordCheck | SegmentCheck) -> str:
    differ = "differs" if check.errors == 1 else "differ"
    return (
        f"{check.errors} of {pluralize(check.words, 'word')} {differ} ({check.word_error_rate:.1%})"
    )


def _format_check(one: SegmentCheck) -> str:
    text = f"  segment {one.segment}: {_count_errors(one)}"
    if not one.errors:
        return text
    shown = one.differences[:_MAX_DIFFERENCES]
    wrong = [f"{expected or '-'} / {heard or '-'}" for expected, heard in shown]
    more = ", ..." if len(one.differences) > _MAX_DIFFERENCES else ""
    return f"{text}: {', '.join(wrong)}{more}"


def _read_words(arguments: argparse.Namespace) -> str:
    """The text, from the one place that was named."""
    if arguments.words and arguments.file:
        raise InvalidInputError("a text and a file were both given", hint="Give one of them.")
    if len(arguments.words) == 1:
        _check_not_path(arguments.words[0])
    if arguments.words:
        return " ".join(arguments.words)
    if arguments.file:
        return read_input(arguments.file)
    if sys.stdin is not None and not sys.stdin.isatty():
        return read_input("-")
    raise InvalidInputError("no text", hint='anyrig speak "Hello.", -f FILE, or a pipe.')


def _check_not_path(word: str) -> None:
    if word.endswith(".") or not looks_like_path(word):
        return
    path = os.path.expanduser(word)
    if os.path.isfile(path):
        hint = f"-f {word} reads it; add a full stop to say its name."
        raise InvalidInputError(f"{word} is a file", hint=hint)
    if not os.path.exists(path):
        hint = "Check the path, and pass it with -f; add a full stop to say the name."
        raise InvalidInputError(f"no such file: {word}", hint=hint)


def _print_script(rig: Rig, request: SpeechRequest, arguments: argparse.Namespace) -> int:
    choice, script = speech.plan_speech(rig, request)
    if not arguments.json:
        for number, segment in enumerate(script.segments):
            print(f"{number:>4}  {segment.spoken}")
        return 0
    print_json({
        "engine": choice.name,
        "segments": [
            {
                "text": segment.text, "spoken": segment.spoken,
                "language": segment.utterance.language, "voice": segment.utterance.voice,
                "rate": segment.utterance.rate, "kind": segment.kind,
                "spans": [list(span) for span in segment.spans],
                "pause_before_s": segment.pause_before_s, "pause_after_s": segment.pause_after_s,
            }
            for segment in script.segments
        ],
        "omitted": [[*one.span, one.kind] for one in script.omissions],
    })  # fmt: skip
    return 0


# -- many lines ------------------------------------------------------------------------------------


def _run_lines(arguments: argparse.Namespace) -> int:
    from anyrig.app.batch import BatchRequest, plan_batch, speak_lines
    from anyrig.speech.batch import read_lines

    given = {
        "a text": arguments.words, "-f": arguments.file, "--play": arguments.play,
        "--verify": arguments.verify, "--captions": arguments.captions,
    }  # fmt: skip
    for name, value in given.items():
        if value:
            raise InvalidInputError(f"--lines and {name} were both given", hint="Give one of them.")
    if arguments.output == "-":
        raise InvalidInputError("--lines writes many files", hint="-o must name a folder.")
    file = Path(arguments.lines).expanduser()
    options: dict[str, Any] = {"file": file, "output": Path(arguments.output or file.stem)}
    options["output"] = options["output"].expanduser()
    for name in ("format", "only"):
        if getattr(arguments, name):
            options[name] = getattr(arguments, name)
    options |= read_flags(arguments, SpeechRequest)
    with EventPrinter(json_lines=arguments.events and arguments.json) as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(BatchRequest, **options)
        if arguments.queue:
            from anyrig.cli.jobs import print_queued

            read_lines(file)  # what is wrong with it is reported now
            return print_queued([rig.jobs.submit("batch", **options)], as_json=arguments.json)
        action = plan_batch if arguments.dry_run else speak_lines
        try:
            result = action(rig, request, printer)
        except MissingVoiceError as error:
            offer_voice(error, rig, printer, ask=not arguments.json)
            result = action(rig, request, printer)
        _print_batch(result, arguments, printer)
    if result.failed:
        raise _failure(result.failed)
    return 0


def _print_batch(result: BatchResult, arguments: argparse.Namespace, printer: EventPrinter) -> None:
    if arguments.dry_run:
        _print_plan(result, is_json=arguments.json)
    elif arguments.json:
        printer.end(result.to_json())
    else:
        _report_batch(result)


def _print_plan(result: BatchResult, *, is_json: bool) -> None:
    if is_json:
        rows = [
            {"file": item.path.name, "text": item.line.text, "spoken": item.spoken_text}
            for item in result.items
        ]
        failed = [one.line.stem for one in result.failed]
        print_json({"lines": rows, "left": result.num_existing, "failed": failed})
        return
    for item in result.items:
        print(f"{item.path.name}  {item.spoken_text}")
    if result.num_existing:
        print(f"{pluralize(result.num_existing, 'file')} already exist")


def _report_batch(result: BatchResult) -> None:
    parts = []
    if result.num_made:
        duration = format_duration(result.audio_s)
        parts.append(f"{pluralize(result.num_made, 'file')}, {duration} of speech")
    if result.num_existing:
        parts.append(f"{pluralize(result.num_existing, 'file')} already existed")
    if result.engine.reason:
        parts.append(f"by {result.engine.name}: {result.engine.reason}")
    print(f"{result.folder}: {', '.join(parts) or 'nothing was made'}")


def _failure(failed: Sequence[FailedLine]) -> WorkError:
    first, *more = failed
    for one in more[:_MAX_WARNINGS]:
        print_warning(Message("line {stem}: {problem}", stem=one.line.stem, problem=one.message))
    return WorkError(
        Message(
            "{lines} could not be spoken; the first, {stem}: {problem}",
            lines=pluralize(len(failed), "line"),
            stem=first.line.stem,
            problem=first.message,
        ),
        hint=first.hint or "Run the command again to try them: files that exist are kept.",
    )
