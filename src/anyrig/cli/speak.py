"""`anyrig speak`: text in, audio out: played, written to a file, or one file for each line."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, events, fleet, lines, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.deliver import Delivered, Spool, Target, deliver
from anyrig.cli.keep import keeping
from anyrig.cli.show import Progress, print_json, print_warning
from anyrig.cli.verify import Heard, check_installed, verify
from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.speech.script import Script, Segment

HELP = """Speak a text: the words on the command line, a file with -f, or what comes in
through a pipe. With -o it is written to a file (wav, flac, mp3, opus, m4a; - is the
standard output); without, it is played, or written to speech.wav where nothing can play
it. --lines FILE speaks each line of a file (or each entry of a JSONL file with text,
id and voice) into a file of its own, in the folder that -o names; a run that was cut
off goes on where it stopped, and --only 3,7 makes entries again. What was spoken once is
kept, and is there at once the next time."""
MIXED = True
_LONGEST_NAME = 255
_MOST_WARNINGS = 8


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("words", nargs="*", metavar="TEXT", help="what to say")
    parser.add_argument("-f", "--file", metavar="FILE", help="the text is in this file; - is stdin")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the audio goes")
    parser.add_argument(
        "--format", metavar="NAME", help="wav, flac, mp3, opus, m4a or pcm; else by the file's name"
    )
    parser.add_argument("--play", action="store_true", help="play it, also where -o is given")
    parser.add_argument(
        "--lines", metavar="FILE", help="a file of lines, or JSONL: an audio file for each"
    )
    parser.add_argument(
        "--only", metavar="LIST", help="with --lines: make these again, as 3,7 or 3-5 or an id"
    )
    parser.add_argument(
        "--verify", action="store_true", help="listen to each segment and count wrong words"
    )
    parser.add_argument("--fresh", action="store_true", help="make again what is kept already")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be said, segment by segment"
    )
    parser.add_argument(
        "--loudness",
        type=voicing.lufs,
        metavar="LUFS",
        help="of a file; -19 when not given, 0 as it is",
    )
    parser.add_argument(
        "--queue", action="store_true", help="with --lines: later; `anyrig jobs run` does it"
    )
    events.argument(parser)
    voicing.arguments(parser)
    fleet.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Speak."""
    context = Context(options)
    if options.lines:
        return _queue(context) if options.queue else lines.run(context)
    if options.queue:
        raise InvalidInputError(
            "--queue goes with --lines", hint="A single text is spoken at once."
        )
    if options.events:
        raise InvalidInputError(
            "--events goes with --lines", hint="Leave it out, or name a list of lines."
        )
    if options.only:
        raise InvalidInputError(
            "--only goes with --lines", hint="`anyrig speak --lines FILE --only 3,7`."
        )
    text = _text(options)
    if not text.strip():
        raise UnspeakableTextError("the text is empty", hint='anyrig speak "Hello."')
    with Progress(1, "text") as progress:
        progress.step("finding out its language")
        engine = speaker.chosen(context, speaker.language_of(context, text))
    if options.dry_run:
        return _show(context, engine, _script(context, engine, text))
    return _speak(context, engine, text, Target.of(options.output, options.format, options.play))


def _queue(context: Context) -> int:
    """A list of lines as a job."""
    from anyrig.cli import jobs
    from anyrig.cli.entries import read

    options = context.options
    read(Path(options.lines).expanduser())  # what is wrong with it is told now
    asked: dict[str, Any] = {
        "file": options.lines, "output": options.output or Path(options.lines).stem
    }  # fmt: skip
    if options.set:
        asked["set"] = dict(text.partition("=")[::2] for text in options.set)
    return jobs.queue(context, "batch", asked)


def _script(
    context: Context, engine: speaker.Chosen, text: str, *, first_short: bool = False
) -> Script:
    with Progress(1, "text") as progress:
        progress.step("cutting it into sentences")
        script = voicing.script(context, engine, text, first_short=first_short)
    for warning in script.warnings:
        print_warning(warning)
    return script


def _speak(context: Context, engine: speaker.Chosen, text: str, target: Target) -> int:
    began = time.monotonic()
    with ExitStack() as stack:
        store = stack.enter_context(keeping(context))
        spool = Spool(stack.enter_context(tempfile.TemporaryFile(prefix="anyrig-")))
        # The workers load while the text is prepared.
        studio = stack.enter_context(voicing.studio(context, engine, len(text), store))
        script = _script(context, engine, text, first_short=target.path is None)
        if context.options.verify:
            check_installed(tuple({segment.line.language for segment in script.segments}))
        delivered = deliver(
            studio, script, target, loudness=voicing.loudness(context),
            fresh=context.options.fresh, spool=spool,
        )  # fmt: skip
        wall_s = time.monotonic() - began
        heard = verify(context, script, delivered, spool) if context.options.verify else None
    _warn_of_doubtful(delivered)
    if context.options.json:
        print_json(_plain(engine, script, delivered, wall_s, heard))
    else:
        _report(engine, delivered, wall_s, heard, fleet.made_by(context, delivered.tally))
    return 0


def _warn_of_doubtful(delivered: Delivered) -> None:
    """What the checks have against the best takes there are."""
    doubtful = delivered.tally.doubtful
    for spoken in doubtful:
        delivered.chunks[spoken.index]["problems"] = list(spoken.problems)
    for spoken in doubtful[:_MOST_WARNINGS]:
        print_warning(f"{'; '.join(spoken.problems)}: {spoken.segment.text.strip()[:60]!r}")
    if len(doubtful) > _MOST_WARNINGS:
        more = pluralize(len(doubtful) - _MOST_WARNINGS, "more segment")
        print_warning(f"{more} may sound wrong; --json lists them all")


def _plain(
    engine: speaker.Chosen,
    script: Script,
    delivered: Delivered,
    wall_s: float,
    heard: Heard | None,
) -> dict[str, Any]:
    """What was made, for programs."""
    tally = delivered.tally
    return {
        "file": str(delivered.path) if delivered.path else None,
        "engine": engine.name,
        "why": engine.why or None,
        "languages": list(script.languages),
        "rate": delivered.rate,
        "audio_s": round(delivered.audio_s, 4),
        "wall_s": round(wall_s, 3),
        "kept": tally.num_kept,
        "made_again": tally.num_again,
        "devices": tally.devices,
        "segments": delivered.chunks,
        "verified": heard.plain() if heard is not None else None,
    }


def _report(
    engine: speaker.Chosen, delivered: Delivered, wall_s: float, heard: Heard | None, by: str
) -> None:
    """What was made and by whom, in a line; then what was heard, where it was listened to."""
    out = sys.stdout if delivered.path else sys.stderr
    tally = delivered.tally
    facts = [f"{delivered.audio_s / wall_s if wall_s else 0.0:.1f} times real time"]
    if tally.num_kept:
        facts.append(f"{tally.num_kept} of {tally.num_segments} kept")
    if by:
        facts.append(by)
    if engine.why:
        facts.append(f"by {engine.name}: {engine.why}")
    where = f"{delivered.path}: " if delivered.path else ""
    lasts = f"{format_duration(delivered.audio_s)} of speech in {format_duration(wall_s)}"
    print(f"{where}{lasts} ({', '.join(facts)})", file=out)
    if heard is not None:
        print(heard.text(), file=out)


def _is_file(word: str) -> bool:
    try:
        return len(word) < _LONGEST_NAME and Path(word).is_file()
    except (OSError, ValueError):  # a text that no system takes for a name
        return False


def _text(options: argparse.Namespace) -> str:
    """What to say: from the one place that was named."""
    if options.words and options.file:
        raise InvalidInputError("there is a text and a file", hint="Give one of them.")
    if len(options.words) == 1 and _is_file(options.words[0]):
        name = options.words[0]
        raise InvalidInputError(
            f"{name} is a file", hint=f"-f {name} reads it; a full stop says its name."
        )
    if options.words:
        return " ".join(options.words)
    if options.file and options.file != "-":
        return voicing.read_text(Path(options.file).expanduser())
    if options.file == "-" or (sys.stdin is not None and not sys.stdin.isatty()):
        from anyrig.text.decode import decode

        return decode(sys.stdin.buffer.read(), "the standard input")
    raise InvalidInputError("nothing to say", hint='anyrig speak "Hello.", -f FILE, or a pipe.')


def _show(context: Context, engine: speaker.Chosen, script: Script) -> int:
    """Each segment as it would be said."""
    if context.options.json:
        print_json({"engine": engine.name,
                    "segments": [_described(segment) for segment in script.segments],
                    "omitted": [[*o.span, o.kind] for o in script.omissions]})  # fmt: skip
        return 0
    for number, segment in enumerate(script.segments):
        print(f"{number:>4}  {segment.line.text}")
    return 0


def _described(segment: Segment) -> dict[str, Any]:
    line = segment.line
    return {
        "text": segment.text, "spoken": line.text, "language": line.language, "voice": line.voice,
        "rate": line.rate, "kind": segment.kind, "spans": [list(span) for span in segment.spans],
        "pause_before_s": segment.pause_before_s, "pause_after_s": segment.pause_after_s,
    }  # fmt: skip
