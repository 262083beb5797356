"""The command line: a table of commands, each imported once its name is known.

argparse and late imports keep `anyrig devices` within 200 ms of CPU time. Only this room prints.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from anyrig.cli.said import Said
    from anyrig.errors import AnyrigError

# name -> (module in this room, one line of help). The order is the order of the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "devices": ("devices", "list every device, what drives it, and which one is chosen"),
    "doctor": ("doctor", "check the machine and say what to mend, with a real kernel per device"),
    "use": ("use", "choose the device to use from now on"),
    "bench": ("bench", "measure every usable device and keep the figures"),
    "profile": ("profile", "memory and speed against batch size, and the largest batch that fits"),
    "top": ("top", "watch load, memory, power and temperature of every device, live"),
    "speak": ("speak", "say a text: play it, or write it to a file; many at once with --lines"),
    "book": ("book", "make an audiobook of an EPUB, PDF or text: m4b with chapters and cover"),
    "transcribe": ("transcribe", "write down what is said in recordings: text, captions, JSON"),
    "embed": ("embed", "vectors of texts, files and folders, as .npy, .npz, .jsonl or .csv"),
    "analyse": ("analyse", "languages, key phrases, copies and clusters of a folder; HTML report"),
    "summarise": ("summarise", "documents in a few sentences, their own or those of a model"),
    "ocr": ("ocr", "read scanned pages and PDFs: text, boxes, searchable PDFs"),
    "jobs": ("jobs", "what is queued: work on it, watch it, pause, resume, cancel, delete"),
    "voices": ("voices", "list the voices, and write a sample of each"),
    "engines": ("engines", "list the speech engines, what they lack and how to get it"),
    "index": ("index", "make folders searchable, and keep them so: only what changed is read"),
    "search": ("search", "what folders say on a question, with file, page and passage"),
    "cache": ("cache", "see what is kept of finished work; prune, export, import, verify it"),
    "classify": ("classify", "sort documents by labels: by name, by examples, by a model"),
    "train": ("train", "train a model by a TOML file: text, images, diffusion, fine-tuning"),
    "serve": ("serve", "every ability over HTTP, and a page in the browser"),
    "keys": ("keys", "who may call the server: add, list and remove API keys"),
    "worker": ("worker", "let this machine help a cluster: take shards from a broker, speak them"),
    "coordinator": ("coordinator", "lead a cluster: a broker, and the line that lets others join"),
    "cluster": ("cluster", "who works in a cluster, and how fast; let workers leave"),
    "entities": ("entities", "people, places, dates, amounts and checked numbers in documents"),
}
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141
_ABOUT = ("-h", "--help", "--version", "-V")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.stdout is None:  # closed by the shell (>&-): nobody reads
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    from anyrig.cli.escape import EscapedStream
    from anyrig.cli.said import Said, for_programs

    words = list(sys.argv[1:] if arguments is None else arguments)
    said = Said(cast(TextIO, EscapedStream(sys.stdout))) if for_programs(words) else None
    output = said or EscapedStream(sys.stdout)
    errors = EscapedStream(sys.stderr)
    with (
        contextlib.redirect_stdout(cast(TextIO, output)),
        contextlib.redirect_stderr(cast(TextIO, errors)),
    ):
        return _run(words, said)


def _run(words: list[str], said: Said | None) -> int:
    """The exit code, whatever happens; a program that reads JSON is told of errors by `said`."""
    try:
        with _closing_on_signals():
            code = _dispatch(words, said)
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        kept = "; what was made is kept: the same command goes on" if "book" in words else ""
        if isinstance(error, _Terminated):
            print(f"\nterminated{kept}", file=sys.stderr)
            return 128 + error.number
        print(f"\ninterrupted{kept}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone: nothing more to say, and nobody to say it to at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CLOSED_PIPE
    except OSError as error:
        return _system_refused(error, said)
    return code


class _Terminated(KeyboardInterrupt):
    """The process was asked to end by a signal other than Ctrl+C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def _closing_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind a command as Ctrl+C does: no unfinished file stays behind.

    The second one ends it at once. Commands with handlers of their own put theirs in place.
    """
    import signal
    import threading

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise _Terminated(number)

    ours: list[int] = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, end)
                ours.append(number)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _system_refused(error: OSError, said: Said | None) -> int:
    """A full disk, a folder that may not be written: one line and what to do."""
    if sys.platform == "win32" and error.errno == errno.EINVAL:
        return EXIT_CLOSED_PIPE  # what Windows says of a pipe whose reader has gone
    where = f" ({error.filename})" if error.filename else ""
    message = f"the system refused: {error.strerror or error}{where}"
    hint = "look at the disk's space and the folder's permissions; -vv says more"
    print(f"error: {message}", file=sys.stderr)
    print(f"  hint: {hint}", file=sys.stderr)
    if said is not None:
        said.fail(message, hint, 1)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    logging.getLogger(__name__).debug("refused", exc_info=error)
    return 1


def _dispatch(arguments: list[str], said: Said | None = None) -> int:
    from anyrig.cli.output import print_error
    from anyrig.cli.parse import command_line, overview
    from anyrig.errors import AnyrigError, format_mentions

    first = next((one for one in arguments if one in _ABOUT or one in COMMANDS), "")
    if not arguments or first in ("-h", "--help") or arguments[0] == "help":
        return _help(arguments, overview)
    if first in ("--version", "-V") or arguments[0] == "version":
        from anyrig.version import __version__

        print(f"anyrig {__version__}")
        return 0
    try:
        command, options = command_line(arguments)
        return command.run(options)
    except AnyrigError as error:
        failed: AnyrigError = error
    except ModuleNotFoundError as error:
        failed = _missing(error)
    if not failed.hint:
        failed.hint = (
            f"See `anyrig {first} --help`." if first in COMMANDS else "See `anyrig --help`."
        )
    print_error(failed)
    if said is not None:
        message, hint = (format_mentions(one, "command") for one in (failed.message, failed.hint))
        said.fail(message, hint, failed.exit_code)
    return failed.exit_code


def _missing(error: ModuleNotFoundError) -> AnyrigError:
    """A package that nobody looked for before it was imported; a module of ours is a fault."""
    from anyrig.errors import MissingPackageError
    from anyrig.install import format_install_for

    if not error.name or error.name.partition(".")[0] == "anyrig":
        raise error
    logging.getLogger(__name__).debug("missing", exc_info=error)
    return MissingPackageError(
        f"the package {error.name} cannot be imported: {error}", hint=format_install_for(error.name)
    )


def _help(words: list[str], overview: object) -> int:
    if name := next((word for word in words if word in COMMANDS), ""):
        return _dispatch([name, "--help"])
    assert callable(overview)
    print(overview())
    return 0
