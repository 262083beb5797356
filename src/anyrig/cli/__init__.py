"""The command line: a table of commands, each imported once its name is known.

argparse and late imports keep `anyrig devices` within 200 ms of CPU time. Only this room prints.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# name -> (module in this room, one line of help). The order is the order of the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "devices": ("devices", "list every device, what drives it, and which one is chosen"),
    "doctor": ("doctor", "check the machine and say what to mend, with a real kernel per device"),
    "use": ("use", "choose the device to use from now on"),
    "bench": ("bench", "measure every usable device and keep the figures"),
}
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone: nothing more to say, and nobody to say it to at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CLOSED_PIPE
    return code


def _dispatch(arguments: list[str]) -> int:
    from anyrig.cli.parse import command_line, overview
    from anyrig.cli.show import print_error
    from anyrig.errors import AnyrigError

    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _help(arguments[1:], overview)
    if arguments[0] == "--version":
        from anyrig import __version__

        print(f"anyrig {__version__}")
        return 0
    try:
        command, options = command_line(arguments)
        return command.run(options)
    except AnyrigError as error:
        print_error(error)
        return error.exit_code


def _help(rest: list[str], overview: object) -> int:
    if rest and rest[0] in COMMANDS:
        return _dispatch([rest[0], "--help"])
    assert callable(overview)
    print(overview())
    return 0
