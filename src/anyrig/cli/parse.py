"""From words to a command and its options; flags stand before or after the command's name."""

from __future__ import annotations

import argparse
import importlib
from typing import NoReturn, Protocol, cast

from anyrig.cli import COMMANDS
from anyrig.errors import InvalidInputError, UnknownCommandError
from anyrig.units import is_whole_number


class Command(Protocol):
    """What a command's module offers."""

    HELP: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; the exit code."""


class _Parser(argparse.ArgumentParser):
    """argparse that raises our error, so that a wrong flag looks like any other mistake."""

    def error(self, message: str) -> NoReturn:
        hint = f"See `{self.prog} --help`."
        for word in message.split() if "unrecognized" in message else ():
            import difflib

            near = difflib.get_close_matches(word, self._option_string_actions, n=1)
            if near:
                hint = f"Did you mean {near[0]}? {hint}"
        raise InvalidInputError(message, hint=hint)


def overview() -> str:
    """The help of the whole program."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
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


def command_line(arguments: list[str]) -> tuple[Command, argparse.Namespace]:
    """The command that was named, and its options."""
    index = _find_command(arguments)
    leading, name, rest = arguments[:index], arguments[index], arguments[index + 1 :]
    command = _load(name)
    parser = parser_of(name, command)
    # argparse's usual way refuses a word that stands behind a flag which stands behind a word.
    mixed = getattr(command, "MIXED", False)
    parse = parser.parse_intermixed_args if mixed else parser.parse_args
    words = [*leading, *rest]
    if _is_open(parser, leading) and "--" not in rest:
        words = [*rest, *leading]  # the flag's values ended where the command stood
    return command, parse(words)


def _load(name: str) -> Command:
    return cast(Command, importlib.import_module(f"anyrig.cli.{COMMANDS[name][0]}"))


def parser_of(name: str, command: Command) -> argparse.ArgumentParser:
    """A command's parser: its own flags, then those that all commands share."""
    parser = _Parser(
        prog=f"anyrig {name}",
        description=command.HELP,
    )
    command.arguments(parser)
    common = parser.add_argument_group("options of every command")
    which, gpu_default = None, None
    if "--device" not in parser._option_string_actions:  # else the request has them
        which = common.add_mutually_exclusive_group()
        which.add_argument(
            "--device",
            type=_word,
            metavar="WORD",
            help="auto, all, cpu, cuda:1, rocm:0, xpu:0, mps, dml:0, webgpu:0, an index, an id or"
            " part of a name",
        )
        common.add_argument(
            "--strict", action="store_true", help="a device that cannot be used is an error"
        )
        common.add_argument(
            "--no-bench", action="store_true", help="do not measure a device on its first use"
        )
    else:
        gpu_default = argparse.SUPPRESS
    group = which if which is not None else common
    group.add_argument(
        "--gpu", metavar="N", dest="device", type=_index, default=gpu_default,
        help="the same by index",
    )  # fmt: skip
    common.add_argument("--json", action="store_true", help="print JSON for programs")
    common.add_argument("--config", metavar="FILE", help="settings file instead of ./anyrig.toml")
    common.add_argument("--log-file", metavar="FILE", help="write the whole log there as well")
    common.add_argument("-v", "--verbose", action="count", default=0, help="say more; -vv says all")
    return parser


def _word(text: str) -> str:
    if not text.strip():
        raise InvalidInputError("the device has no name", hint="`auto` picks the best one.")
    return text


def _index(text: str) -> str:
    number, _, part = text.partition(":")
    if not is_whole_number(number) or (part and not is_whole_number(part)):
        raise InvalidInputError(
            f"--gpu {text} is no number", hint="`anyrig devices` numbers the GPUs."
        )
    return text


def _find_command(arguments: list[str]) -> int:
    """Where the command's name stands; flags of the command may stand before it."""
    if arguments and arguments[0] in COMMANDS:
        return 0
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = [index for index, word in enumerate(arguments[:end]) if word in COMMANDS]
    for index in found:
        name = arguments[index]
        if _are_flags(parser_of(name, _load(name)), arguments[:index]):
            return index
    if found:  # a flag before it is not one of the command's: argparse says which
        return found[0]
    words = [word for word in arguments[:end] if not word.startswith("-")]
    if not words:
        raise InvalidInputError("no command was named", hint=f"There are: {', '.join(COMMANDS)}.")
    import difflib

    near = [(difflib.SequenceMatcher(None, word, name).ratio(), word, name)
            for word in words for name in COMMANDS]  # fmt: skip
    ratio, word, name = max(near)
    meant = f"Did you mean `anyrig {name}`? " if ratio >= 0.6 else ""
    word = word if meant else words[0]
    raise UnknownCommandError(
        f"no command {word!r}", hint=f"{meant}There are: {', '.join(COMMANDS)}."
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
