"""Labels as a person writes them: names with a comma between, each with a few words if need be."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from anyrig.errors import InvalidInputError
from anyrig.text.decode import written

_HINT = "Write --labels 'invoice,letter,contract', or --labels @FILE with one label a line."
_LONGEST = 200


@dataclass(frozen=True)
class Label:
    """What a text may be."""

    name: str
    description: str = ""
    """A few words that say what is meant, for a model that has only words to go by."""


def labels(text: str) -> tuple[Label, ...]:
    """Labels of `invoice,letter: a personal one`, or of a file named by `@FILE`, one a line."""
    if text.startswith("@"):
        lines = written(Path(text[1:]).expanduser(), "the list of labels", hint=_HINT).splitlines()
        named: Iterable[str] = [line for line in lines if not line.lstrip().startswith("#")]
    else:
        named = next(csv.reader([text.replace("\n", ",")], skipinitialspace=True), [])
    found = [_label(piece) for piece in named if piece.strip()]
    return checked(found)


def _label(text: str) -> Label:
    name, _, description = text.partition(":")
    return Label(" ".join(name.split()), " ".join(description.split()))


def checked(found: Iterable[Label]) -> tuple[Label, ...]:
    """The labels, if they can be told apart."""
    found = tuple(found)
    names = [label.name for label in found]
    if not names:
        raise InvalidInputError("there are no labels", hint=_HINT)
    for name in names:
        if not name or len(name) > _LONGEST:
            raise InvalidInputError(f"{name[:40]!r} is no name of a label", hint=_HINT)
        if names.count(name) > 1:
            raise InvalidInputError(f"the label {name!r} is there twice", hint="Name each once.")
    return found
