"""From words to a command and its options: the common flags, before or after the command's name."""

from __future__ import annotations

import argparse
import importlib
from typing import NoReturn, Protocol, cast

from anyrig.cli import COMMANDS
from anyrig.errors import BadInput, NoSuchCommand
from anyrig.units import is_number

_WITH_VALUE = (
    "--log-file --config --device --gpu --machine --record --plot --interval --count --sort"
    " --to --older-than --kind --engine"
    " --precision --profile --memory-gb --memory-fraction --workers-per-device"
    " -f -o --from"
    " --file --output --format --lines --only --loudness --voice --model --language --rate --seed"
    " --set --lexicon --samples --text --match --repository --revision"
    " --chapters --sample --voices --again --words --levels --title --author --narrator --cover"
    " --captions --bitrate --cast --notes --tables --images --poems --code --pages --titles"
    " --matter --foreign"
    " --at-once"
    " --index --mode --limit --folder --type --after --before --ocr --long"
    " --labels --with --name --pool --prior --threshold --template"
    " --kinds --labels --threshold"
    " --dpi"
    " --shape --tokens --length --sizes --most --longest"
    " --similar --sentences --share"
    " --run --resume --steps --nproc --strategy --export"
    " --host --port --scopes --expires"
    " --join --nodes --broker --cluster --box-port --address --flower-port"
).split()


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
        raise BadInput(message, hint=hint)


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
    leading, name, rest = _split(arguments)
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"Did you mean `anyrig {near[0]}`? " if near else ""
        raise NoSuchCommand(
            f"no command {name!r}", hint=f"{meant}There are: {', '.join(COMMANDS)}."
        )
    module = importlib.import_module(f"anyrig.cli.{COMMANDS[name][0]}")
    command = cast(Command, module)
    parser = parser_of(name, command)
    # argparse's usual way refuses a word that stands behind a flag which stands behind a word.
    mixed = getattr(module, "MIXED", False)
    parse = parser.parse_intermixed_args if mixed else parser.parse_args
    return command, parse([*leading, *rest])


def parser_of(name: str, command: Command) -> argparse.ArgumentParser:
    """A command's parser: its own flags, then those that all commands share."""
    parser = _Parser(
        prog=f"anyrig {name}",
        description=command.HELP,
    )
    command.arguments(parser)
    common = parser.add_argument_group("options of every command")
    which = common.add_mutually_exclusive_group()
    which.add_argument(
        "--device",
        type=_word,
        metavar="WORD",
        help="auto, all, cpu, cuda:1, rocm:0, xpu:0, mps, dml:0, webgpu:0, an index, an id or part"
        " of a name",
    )
    which.add_argument("--gpu", metavar="N", dest="device", type=_index, help="the same by index")
    common.add_argument(
        "--strict", action="store_true", help="a device that cannot be used is an error"
    )
    common.add_argument(
        "--no-bench", action="store_true", help="do not measure a device on its first use"
    )
    common.add_argument("--json", action="store_true", help="print JSON for programs")
    common.add_argument("--config", metavar="FILE", help="settings file instead of ./anyrig.toml")
    common.add_argument("--log-file", metavar="FILE", help="write the whole log there as well")
    common.add_argument("-v", "--verbose", action="count", default=0, help="say more; -vv says all")
    return parser


def _word(text: str) -> str:
    if not text.strip():
        raise BadInput("the device has no name", hint="`auto` picks the best one.")
    return text


def _index(text: str) -> str:
    number, _, part = text.partition(":")
    if not is_number(number) or (part and not is_number(part)):
        raise BadInput(f"--gpu {text} is no number", hint="`anyrig devices` numbers the GPUs.")
    return text


def _split(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    """Flags before the command's name, the name, and what follows it."""
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        index += 2 if arguments[index] in _WITH_VALUE else 1
    if index >= len(arguments):
        raise BadInput("no command was named", hint=f"There are: {', '.join(COMMANDS)}.")
    return arguments[:index], arguments[index], arguments[index + 1 :]
