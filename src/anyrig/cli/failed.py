"""Files that could not be read, told alike by every command: in lines, in JSON, by the exit code.

One that cannot be read is a warning with its hint, and the command ends with 1. Where none could be
read there is nothing to show: the first reason is the command's own error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from anyrig.cli.output import print_warning
from anyrig.errors import AnyrigError, format_mentions
from anyrig.text.labels import one_line
from anyrig.units import pluralize

_MOST_NAMED = 20


class Failed(NamedTuple):
    """A file, and why it could not be read."""

    file: str
    error: AnyrigError

    @property
    def said(self) -> str:
        """What is wrong, with the file's name in front where the reason does not hold it."""
        said, name = one_line(self.error.message, 400), one_line(self.file, 200)
        return said if one_line(Path(self.file).name, 200) in said else f"{name}: {said}"


def plain(failed: Sequence[Failed]) -> list[dict[str, str]]:
    """For programs."""
    return [
        {
            "file": one.file,
            "error": format_mentions(one.error.message, "command"),
            "hint": format_mentions(one.error.hint, "command"),
        }
        for one in failed
    ]


def end(failed: Sequence[Failed], total: int, what: str = "file") -> int:
    """Tell of each at the end; the exit code.

    Args:
        failed: what could not be read.
        total: how many were given.
        what: they are called.
    """
    if not failed:
        return 0
    first = failed[0]
    nothing = len(failed) >= total
    for one in failed[nothing:_MOST_NAMED]:
        print_warning(f"{one.said}\n  hint: {one.error.hint}")
    if len(failed) > _MOST_NAMED:
        print_warning(f"and {len(failed) - _MOST_NAMED} more; --json has them all")
    if total > 1:
        print_warning(f"{len(failed)} of {pluralize(total, what)} could not be read")
    if nothing:
        first.error.message = first.said
        raise first.error
    return 1
