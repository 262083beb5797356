"""What a hostile file is, and the list that the makers put theirs into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Outcome = Literal["refused", "read", "either"]
Maker = Callable[[Path], Path]


@dataclass(frozen=True)
class Hostile:
    """A file that wants to do harm, or that harm was done to."""

    name: str
    make: Maker
    """Writes it into a folder and gives its path."""
    outcome: Outcome
    """What must come of it; `either` where both are right."""
    slow: bool = False


ALL: dict[str, Hostile] = {}


def hostile(outcome: Outcome, *, slow: bool = False) -> Callable[[Maker], Maker]:
    """Put a maker into the list, under its own name."""

    def noted(make: Maker) -> Maker:
        _put(Hostile(make.__name__, make, outcome, slow))
        return make

    return noted


def as_is(
    name: str, file_name: str, outcome: Outcome, data: Callable[[], bytes | str], *,
    slow: bool = False,
) -> None:  # fmt: skip
    """A file that is some bytes and no more."""

    def make(folder: Path) -> Path:
        made = data()
        path = folder / file_name
        path.write_bytes(made.encode("utf-8", "surrogatepass") if isinstance(made, str) else made)
        return path

    _put(Hostile(name, make, outcome, slow))


def _put(one: Hostile) -> None:
    assert one.name not in ALL, one.name
    ALL[one.name] = one
