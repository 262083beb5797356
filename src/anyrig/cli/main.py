"""The entry point: find the command that the arguments name, run it, report what goes wrong.

A command is a module with `HELP`, `arguments(parser)` and `run(arguments)`, imported once its name
is known: argparse and late imports keep `anyrig devices` within 200 ms of CPU time.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import errno
import gc
import importlib
import logging
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, TextIO, cast

from anyrig.errors import InvalidInputError, UnknownCommandError
from anyrig.units import is_whole_number

if TYPE_CHECKING:
    from anyrig.errors import AnyrigError

# The modules of this package that are commands, in the order of the help.
COMMANDS: dict[str, str] = {
    "devices": "list every device, what can use it, and which one is chosen",
    "doctor": "check drivers, packages and devices, and print how to fix them",
    "use": "choose the device to use from now on",
    "bench": "measure every usable device and save the results",
    "profile": "measure memory and speed by batch size, and the largest that fits",
    "top": "watch load, memory, power and temperature of every device, live",
    "speak": "speak text: play it or write it to a file; --lines speaks many",
    "book": "make an audiobook of an EPUB, PDF or text: m4b with chapters and cover",
    "transcribe": "transcribe recordings: text, captions, JSON",
    "embed": "embed texts, files and folders: .npy, .npz, .jsonl or .csv",
    "analyse": "report languages, key phrases, duplicates and clusters of a folder",
    "summarise": "summarise documents in a few sentences",
    "ocr": "read scanned pages and PDFs: text, boxes, searchable PDFs",
    "jobs": "list, run, follow, pause, resume, cancel and delete queued jobs",
    "voices": "list the voices, and write a sample of each",
    "engines": "list, install and remove speech engines",
    "index": "make folders searchable, and update them: only changed files are read",
    "search": "find passages that answer a question, with file and page",
    "ask": "answer a question from indexed files, with the passages cited",
    "cache": "show, prune, export, import and verify cached results",
    "classify": "classify documents by labels, by examples or by a trained model",
    "train": "train a model from a TOML file: text, images, fine-tuning",
    "serve": "serve everything over HTTP, with a web page",
    "keys": "add, list and remove API keys of the server",
    "worker": "make this machine a worker of a cluster",
    "coordinator": "run a cluster: a broker, and the command that others join with",
    "cluster": "list the workers of a cluster; drain or forget them",
    "entities": "find people, places, dates, amounts and numbers in documents",
}
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141
_ABOUT = ("-h", "--help", "--version", "-V")


class Command(Protocol):
    """What a command's module offers."""

    HELP: str
    # Optional: MIXED, whether words may stand between its flags; RESUME, what is kept of a run that
    # was interrupted, and how to continue it.

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags of the command."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run it; returns the exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.stdout is None:  # closed by the shell (>&-): nobody reads
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    # For what libraries start: modules in the working directory must not shadow installed ones.
    os.environ["PYTHONSAFEPATH"] = "1"
    # A process that ends need not look for garbage, which takes a tenth of a short command.
    atexit.register(gc.freeze)
    # numpy's threads spin for 30 ms each when it is imported, unless they are told not to.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    from anyrig.cli.escape import EscapedStream

    words = list(sys.argv[1:] if arguments is None else arguments)
    with (
        contextlib.redirect_stdout(cast(TextIO, EscapedStream(sys.stdout))),
        contextlib.redirect_stderr(cast(TextIO, EscapedStream(sys.stderr))),
    ):
        try:
            with _raise_on_signals():
                code = run_command(words)
                sys.stdout.flush()
                return code
        except KeyboardInterrupt as error:
            return _report_interrupt(error, words)
        except BrokenPipeError:
            # The reader has gone: nothing more is printed, not at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_CLOSED_PIPE
        except OSError as error:
            return _report_system_error(error, as_json=wants_json(words))


def _report_interrupt(error: KeyboardInterrupt, words: list[str]) -> int:
    """Say how to continue what the command has kept."""
    terminated = isinstance(error, _Terminated)
    print(f"\n{'terminated' if terminated else 'interrupted'}", file=sys.stderr)
    name = next((word for word in words if word in COMMANDS), "")
    module = sys.modules.get(f"anyrig.cli.{name}") if name else None
    if resume := getattr(module, "RESUME", ""):
        print(f"  hint: {resume}", file=sys.stderr)
    return 128 + error.number if isinstance(error, _Terminated) else EXIT_INTERRUPTED


class _Terminated(KeyboardInterrupt):
    """The process was asked to end by a signal other than Ctrl+C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def _raise_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind a command as Ctrl+C does, so that no unfinished file is left.

    The second one ends it at once. Commands may install handlers of their own.
    """
    import signal
    import threading

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise _Terminated(number)

    installed: list[int] = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, end)
                installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            signal.signal(number, signal.SIG_DFL)


def _report_system_error(error: OSError, *, as_json: bool) -> int:
    """A full disk, a folder without permission: one line, and what to do."""
    if sys.platform == "win32" and error.errno == errno.EINVAL:
        return EXIT_CLOSED_PIPE  # what Windows reports for a pipe whose reader has gone
    where = f" ({error.filename})" if error.filename else ""
    message = f"{error.strerror or error}{where}"
    hint = "Check free disk space and permissions; -vv shows more."
    print(f"error: {message}", file=sys.stderr)
    print(f"  hint: {hint}", file=sys.stderr)
    if as_json:
        _print_json_error(message, hint, 1)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    logging.getLogger(__name__).debug("system error", exc_info=error)
    return 1


def run_command(words: list[str]) -> int:
    """Find a command and run it; an error of ours is printed, with `--json` as a document."""
    from anyrig.cli.output import print_error
    from anyrig.errors import AnyrigError, render

    first = next((one for one in words if one in _ABOUT or one in COMMANDS), "")
    if not words or first in ("-h", "--help") or words[0] == "help":
        return _print_help(words)
    if first in ("--version", "-V") or words[0] == "version":
        from anyrig.version import __version__

        print(f"anyrig {__version__}")
        return 0
    try:
        command, arguments = parse_command_line(words)
        return command.run(arguments)
    except AnyrigError as error:
        failed: AnyrigError = error
    except ModuleNotFoundError as error:
        failed = _missing_package(error)
    if not failed.hint:
        failed.hint = (
            f"See `anyrig {first} --help`." if first in COMMANDS else "See `anyrig --help`."
        )
    print_error(failed)
    if wants_json(words):
        message, hint = (render(text, "command") for text in (failed.message, failed.hint))
        _print_json_error(message, hint, failed.exit_code)
    return failed.exit_code


def _missing_package(error: ModuleNotFoundError) -> AnyrigError:
    """An error for a package that is not installed; a module of ours is a bug."""
    from anyrig.errors import MissingPackageError
    from anyrig.install import format_install_for

    if not error.name or error.name.partition(".")[0] == "anyrig":
        raise error
    logging.getLogger(__name__).debug("missing", exc_info=error)
    return MissingPackageError(
        f"the package {error.name} cannot be imported: {error}", hint=format_install_for(error.name)
    )


def _print_help(words: list[str]) -> int:
    if name := next((word for word in words if word in COMMANDS), ""):
        return run_command([name, "--help"])
    print(format_overview())
    return 0


def _print_json_error(message: str, hint: str, exit_code: int) -> None:
    """Print an error document for programs, unless the command has printed something.

    A program that reads one document must not find two.
    """
    if getattr(sys.stdout, "is_used", False):
        return
    import json

    row = {"error": message, "hint": hint, "exit_code": exit_code}
    with contextlib.suppress(OSError, ValueError):  # a closed output has no reader
        print(json.dumps(row), flush=True)


def wants_json(words: Sequence[str]) -> bool:
    """Whether JSON is requested; looked up before the words are parsed, as that may fail."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


# -- parsing ---------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """argparse that raises our error, so that a wrong flag looks like any other error."""

    def error(self, message: str) -> NoReturn:
        hint = f"See `{self.prog} --help`."
        words = message.split() if "unrecognized" in message else ()
        meant = [_suggest_flag(word, self._option_string_actions) for word in words]
        if any(meant):
            hint = f"Did you mean {' and '.join(filter(None, meant))}? {hint}"
        raise InvalidInputError(message, hint=hint)


# What other programs call an option, with what to type here.
_FLAGS_ELSEWHERE = {
    **dict.fromkeys(("volume", "gain", "lufs"), "--loudness"),
    **dict.fromkeys(("speed", "tempo", "length-scale", "length_scale"), "--rate"),
    **dict.fromkeys(("speaker", "speaker-id"), "--voice"),
    **dict.fromkeys(("input", "text-file"), "--file"),
    **dict.fromkeys(("dtype", "half", "fp16", "bf16"), "--precision"),
    **dict.fromkeys(("cuda", "gpus"), "--device"),
    **dict.fromkeys(("temperature", "top-p", "top-k", "cfg-scale"), "--set"),
    "lr": "--learning-rate",
}
_MIN_FLAG_SIMILARITY = 0.8


def _suggest_flag(word: str, known: Collection[str]) -> str:
    """The flag that was probably meant; empty if none is close."""
    import difflib

    name = word.partition("=")[0]
    if not name.startswith("--"):
        return ""
    flag = _FLAGS_ELSEWHERE.get(name[2:].lower(), "")
    if flag in known:
        return f"--set {name[2:].replace('-', '_')}=VALUE" if flag == "--set" else flag
    # Without the dashes, which would make all flags similar.
    names = {one.removeprefix("--"): one for one in known if one.startswith("--")}
    near = difflib.get_close_matches(name[2:], names, n=1, cutoff=_MIN_FLAG_SIMILARITY)
    return names.get(near[0] if near else name[2:].partition("-")[0], "")


class _HelpFormatter(argparse.HelpFormatter):
    """Names the value of an option once: `-o, --output FILE`."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def format_overview() -> str:
    """The help of the program."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: anyrig COMMAND [options]",
            "",
            "Speech, documents and training on whatever hardware you own.",
            "",
            *rows,
            "",
            "Every command has --help, --device, --json and -v. Version: `anyrig --version`.",
        ]
    )


def parse_command_line(words: list[str]) -> tuple[Command, argparse.Namespace]:
    """The command that the words name, and its arguments; flags may stand before or after it."""
    index = _find_command(words)
    leading, name, rest = words[:index], words[index], words[index + 1 :]
    command = _load(name)
    parser = build_parser(name, command)
    # Without it, argparse refuses a word after a flag after a word.
    mixed = getattr(command, "MIXED", False)
    parse = parser.parse_intermixed_args if mixed else parser.parse_args
    ordered = [*leading, *rest]
    if _is_open(parser, leading) and "--" not in rest:
        ordered = [*rest, *leading]  # the values of the flag ended before the command
    return command, parse(ordered)


def _load(name: str) -> Command:
    return cast(Command, importlib.import_module(f"anyrig.cli.{name}"))


def build_parser(name: str, command: Command) -> argparse.ArgumentParser:
    """A command's parser: its own flags, then those that all commands share."""
    parser = _Parser(
        prog=f"anyrig {name}", description=command.HELP, formatter_class=_HelpFormatter
    )
    command.arguments(parser)
    common = parser.add_argument_group("options of every command")
    which, gpu_default = None, None
    if "--device" not in parser._option_string_actions:  # else the request has them
        which = common.add_mutually_exclusive_group()
        which.add_argument(
            "--device",
            type=_word,
            metavar="DEVICE",
            help="auto, all, cpu, cuda:1, rocm:0, xpu:0, mps, dml:0, webgpu:0, an index, an id or"
            " part of a name",
        )
        common.add_argument(
            "--strict", action="store_true", help="fail if the requested device cannot be used"
        )
        common.add_argument(
            "--no-bench", action="store_true", help="do not measure a device on first use"
        )
    else:
        gpu_default = argparse.SUPPRESS
    group = which if which is not None else common
    group.add_argument(
        "--gpu", metavar="N", dest="device", type=_index, default=gpu_default,
        help="device by index",
    )  # fmt: skip
    common.add_argument("--json", action="store_true", help="print JSON for programs")
    common.add_argument("--config", metavar="FILE", help="settings file instead of ./anyrig.toml")
    common.add_argument("--log-file", metavar="FILE", help="also write the log to this file")
    common.add_argument(
        "-v", "--verbose", action="count", default=0, help="log more; -vv logs everything"
    )
    return parser


def _word(text: str) -> str:
    if not text.strip():
        raise InvalidInputError("the device has no name", hint="`auto` picks the best one.")
    return text


def _index(text: str) -> str:
    number, _, part = text.partition(":")
    if not is_whole_number(number) or (part and not is_whole_number(part)):
        raise InvalidInputError(
            f"--gpu must be a number, not {text}", hint="`anyrig devices` numbers the GPUs."
        )
    return text


def _find_command(arguments: list[str]) -> int:
    """The index of the command's name; flags of the command may stand before it."""
    if arguments and arguments[0] in COMMANDS:
        return 0
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = [index for index, word in enumerate(arguments[:end]) if word in COMMANDS]
    for index in found:
        name = arguments[index]
        if _are_flags(build_parser(name, _load(name)), arguments[:index]):
            return index
    if found:  # a flag before it is unknown: argparse says which
        return found[0]
    words = [word for word in arguments[:end] if not word.startswith("-")]
    if not words:
        raise InvalidInputError("no command was given", hint=f"Commands: {', '.join(COMMANDS)}.")
    import difflib

    near = [(difflib.SequenceMatcher(None, word, name).ratio(), word, name)
            for word in words for name in COMMANDS]  # fmt: skip
    ratio, word, name = max(near)
    meant = f"Did you mean `anyrig {name}`? " if ratio >= 0.6 else ""
    word = word if meant else words[0]
    raise UnknownCommandError(
        f"unknown command {word!r}", hint=f"{meant}Commands: {', '.join(COMMANDS)}."
    )


def _are_flags(parser: argparse.ArgumentParser, words: list[str]) -> bool:
    """Whether the words are flags of this parser with their values, and nothing else."""
    places = {0}
    for index, word in enumerate(words):
        if index not in places:
            continue
        action = _flag(parser, word)
        if action is None:
            continue
        if "=" in word or action.nargs == 0:
            places.add(index + 1)
            continue
        if isinstance(action.nargs, int):
            least = most = action.nargs
        else:
            least = 0 if action.nargs in ("?", "*") else 1
            most = 1 if action.nargs in ("?", None) else len(words)
        places |= {index + 1 + count for count in range(least, most + 1)}
    return len(words) in places


def _is_open(parser: argparse.ArgumentParser, words: list[str]) -> bool:
    """Whether the last flag of these could take further words."""
    last = next((word for word in reversed(words) if word.startswith("-")), "")
    action = _flag(parser, last) if last and "=" not in last else None
    return action is not None and action.nargs in ("?", "*", "+")


def _flag(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    known = parser._option_string_actions
    name = word.partition("=")[0]
    if name in known:
        return known[name]
    if name.startswith("--"):
        near = {id(known[one]): known[one] for one in known if one.startswith(name)}
        return next(iter(near.values())) if len(near) == 1 else None
    if len(name) > 2 and (short := known.get(name[:2])) is not None:  # -vv, -oFILE
        return short if short.nargs == 0 else argparse.Action([name], "", nargs=0)
    return None
