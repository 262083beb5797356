"""What an asker makes of workers' takes before it keeps them.

Every take is examined as one of this machine is, whatever its worker says of it. Where an engine
always says a line in one way, some lines are made here as well, the first of each worker among
them, and a worker whose takes differ is set aside.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cluster.shard import Answer, Order
from anyrig.errors import AnyrigError, InvalidInputError

if TYPE_CHECKING:
    from anyrig.speech.booth import Recording
    from anyrig.speech.protocol import Line
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
ONE_OF = 32
"""One line of so many is made here as well."""
_AT_ONCE = 2
"""Lines of one answer, at most."""
_TOLD = 60
_MOST_SAMPLES = 50_000_000
"""Of a take: half an hour at 24 kHz."""


class Review:
    """Looks at answers, one after the other, in one thread.

    Args:
        local: starts the engine on this machine; None where it does not say a line in one way.
        hold: whether an answer waits until its lines were made here: not where somebody listens.
    """

    def __init__(self, local: Callable[[], WorkerPool] | None = None, *, hold: bool = True) -> None:
        self._start, self.hold = local, hold
        self._crew: WorkerPool | None = None
        self._confirmed: set[str] = set()
        """Workers, by their start, of whom a take was the same as ours."""
        self._key = f"{uuid.getnode()} {Path.home()}".encode()
        """Which lines are looked at is known to this machine, and to no worker."""

    def examined(self, order: Order, answer: Answer, worker: str) -> Answer:
        """The answer with our own judgement of every take; an error for one that cannot be read.

        Args:
            order: what was asked for.
            answer: what came.
            worker: its name, which is kept with the take.
        """
        from anyrig.speech.sound.check import examine
        from anyrig.speech.sound.pack import num_samples, unpack

        lines = dict(order.lines)
        found: dict[int, Recording] = {}
        for index, one in answer.recordings.items():
            if index not in lines:
                continue
            if num_samples(one.data) > _MOST_SAMPLES:  # before they are in memory
                raise InvalidInputError("a take that is too long", hint="Look at that worker.")
            verdict = examine(unpack(one.data), lines[index])
            found[index] = replace(
                one, problems=tuple(problem.said for problem in verdict.problems),
                hopeless=verdict.score <= 0.0, made_by=worker,
            )  # fmt: skip
        return replace(answer, recordings=found)

    def differs(self, order: Order, answer: Answer, start: str, *, hurry: bool = False) -> str:
        """How a take differs from one that was made here; empty where none was seen to.

        Args:
            order: what was asked for.
            answer: what came.
            start: of the worker.
            hurry: many answers wait: only a worker that is new is looked at.
        """
        from anyrig.speech.sound.compare import difference
        from anyrig.speech.sound.pack import unpack

        known = start in self._confirmed
        if self._start is None or (hurry and known):
            return ""
        for index, line in self._sample(order, answer, known=known):
            mine = self._made(line)
            if mine is None:
                continue
            if said := difference(unpack(mine.data), unpack(answer.recordings[index].data)):
                return f"{line.text.strip()[:_TOLD]!r}: {said}"
            self._confirmed.add(start)
        return ""

    def _sample(self, order: Order, answer: Answer, *, known: bool) -> Sequence[tuple[int, Line]]:
        """Lines that are made here too: by a hash that others do not know, so always the same."""
        there = [(index, line) for index, line in order.lines if index in answer.recordings]
        drawn = {index: self._drawn(line) for index, line in there}
        there.sort(key=lambda pair: drawn[pair[0]])
        chosen = [pair for pair in there if drawn[pair[0]] % ONE_OF == 0]
        return (chosen or ([] if known else there[:1]))[:_AT_ONCE]

    def _drawn(self, line: Line) -> int:
        text = f"{line.voice} {line.language} {line.rate} {line.seed} {line.text}".encode()
        return int.from_bytes(hashlib.blake2b(text, key=self._key[:64]).digest()[:4], "big")

    def _made(self, line: Line) -> Recording | None:
        """A take of this machine; None where it cannot make one, and then there is no opinion."""
        assert self._start is not None
        try:
            if self._crew is None:
                self._crew = self._start()
            (outcome,) = self._crew.run([line], cost=lambda one: one.cost)
        except AnyrigError as error:
            log.warning("takes of workers are not compared with our own: %s", error.message)
            self._start = None
            return None
        found: Recording | None = outcome.result
        return found

    def close(self) -> None:
        """End the engine."""
        if self._crew is not None:
            with suppress(Exception):  # it ends with this process either way
                self._crew.close()
