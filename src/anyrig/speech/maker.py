"""Which takes are made and which are found: the way of each segment through the store.

A take is kept the moment it is there, whatever must still be made before it, so a process that is
killed loses no more than what its workers had in their hands.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrig.speech.engine import Utterance

if TYPE_CHECKING:
    from anyrig.speech.booth import Recording
    from anyrig.speech.engine import Take
    from anyrig.speech.segment import Segment
    from anyrig.speech.shelf import Shelf
    from anyrig.work.outcome import ItemFailure, ItemOutcome


@dataclass(frozen=True)
class Spoken:
    """A segment with its take, or why there is none."""

    index: int
    segment: Segment
    take: Take | None
    problems: tuple[str, ...] = ()
    """What the checks still have against the take."""
    tries: int = 1
    kept: bool = False
    """Whether it was in the store already."""
    device: str = ""
    failure: ItemFailure | None = None
    hopeless: bool = False
    """Whether nothing of the text can be heard in the take: it is not kept."""
    made_by: str = ""
    """The worker of a cluster that made it; empty for this machine."""


class Vanished(Exception):
    """A take that was kept when the run began, and cannot be read any more."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Maker:
    """Which takes are made and which are found, one after the other."""

    def __init__(
        self,
        shelf: Shelf,
        named: Sequence[str],
        there: set[str],
        anew: bool,
        early: bool,
    ) -> None:
        self._shelf, self._named, self._there, self._anew = shelf, named, there, anew
        self._first_made = threading.Event()
        if not early:
            self._first_made.set()
        self._uses = Counter(named)
        self._held: dict[str, tuple[Recording, str]] = {}
        """What was made and is wanted again."""
        self._failed: dict[str, ItemOutcome[Recording]] = {}
        self._asked: list[str] = []
        """The names of the lines that are made, in their order."""

    def missing(self, segments: Sequence[Segment]) -> Iterator[Utterance]:
        """The lines to be made, each once."""
        seen = set(self._there)
        for name, segment in zip(self._named, segments, strict=True):
            if name not in seen:
                seen.add(name)
                self._asked.append(name)
                yield segment.utterance
                self._first_made.wait()

    def __enter__(self) -> Maker:
        return self

    def __exit__(self, *_: object) -> None:
        self._first_made.set()  # whoever leaves early leaves no thread waiting

    def next(self, index: int, segment: Segment, made: Iterator[ItemOutcome[Recording]]) -> Spoken:
        """The take of one segment; they are asked for in order."""
        from anyrig.speech.pack import unpack

        name = self._named[index]
        if name in self._held:
            recording, device = self._again(name)
            return Spoken(
                index, segment, unpack(recording.data), recording.problems, device=device,
                hopeless=recording.hopeless,
            )  # fmt: skip
        if name in self._there:
            return self._found(index, segment, name)
        outcome = self._failed.get(name) or next(made)
        self._first_made.set()
        if outcome.failure is not None or outcome.result is None:
            self._failed[name] = outcome
            return Spoken(index, segment, None, failure=outcome.failure, device=outcome.device)
        recording = outcome.result
        self._uses[name] -= 1
        if self._uses[name]:
            self._held[name] = (recording, outcome.device)
        return Spoken(
            index, segment, unpack(recording.data), recording.problems, recording.tries,
            device=outcome.device, hopeless=recording.hopeless, made_by=recording.made_by,
        )  # fmt: skip

    def _again(self, name: str) -> tuple[Recording, str]:
        self._uses[name] -= 1
        return self._held[name] if self._uses[name] else self._held.pop(name)

    def _found(self, index: int, segment: Segment, name: str) -> Spoken:
        kept = self._shelf.find(name)
        if kept is None:
            raise Vanished(name)
        return Spoken(index, segment, kept.take, kept.problems, kept=True)

    def keep(self, outcome: ItemOutcome[Recording]) -> None:
        """Store a take the moment it is there, whatever must still be made before it."""
        self._shelf.keep(self._asked[outcome.index], outcome.result, anew=self._anew)
