"""Labels as a person writes them: names with a comma between, each with a few words if need be."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.text.decode import read_text

_HINT = Message(
    "Pass {labels}, or {file} with one label per line.",
    labels=OptionRef("labels", "invoice,letter,contract"),
    file=OptionRef("labels", "@FILE"),
)
_LONGEST = 200


@dataclass(frozen=True)
class NamedLabel:
    """What a text may be."""

    name: str
    description: str = ""
    """A few words that say what is meant, for a model that has only words to go by."""


def split_labels(text: str) -> list[str]:
    """The labels of `invoice,letter: a personal one`, or of a file `@FILE` with one per line."""
    if text.startswith("@"):
        lines = read_text(
            Path(text[1:]).expanduser(), "the list of labels", hint=_HINT
        ).splitlines()
        return [line for line in lines if not line.lstrip().startswith("#")]
    return next(csv.reader([text.replace("\n", ",")], skipinitialspace=True), [])


def build_labels(items: Iterable[str]) -> tuple[NamedLabel, ...]:
    """Labels of `invoice` and `letter: a personal one`."""
    return check_labels(_label(item) for item in items if item.strip())


def _label(text: str) -> NamedLabel:
    name, _, description = text.partition(":")
    return NamedLabel(" ".join(name.split()), " ".join(description.split()))


def check_labels(found: Iterable[NamedLabel]) -> tuple[NamedLabel, ...]:
    """The labels, if they can be told apart."""
    found = tuple(found)
    names = [label.name for label in found]
    if not names:
        raise InvalidInputError("there are no labels", hint=_HINT)
    for name in names:
        if not name or len(name) > _LONGEST:
            raise InvalidInputError(f"{name[:40]!r} is not a valid label", hint=_HINT)
        if names.count(name) > 1:
            raise InvalidInputError(f"the label {name!r} occurs twice", hint="Name each once.")
    return found
