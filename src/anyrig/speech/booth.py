"""What a worker does: an engine, and a look at every take before it leaves.

A take that fails a check is made again with another seed, where the engine has one, at most three
times; the best is kept and what is wrong with it is told. So a bad take costs the worker that made
it a moment, and nobody else waits.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anyrig.backends.memory import trim_heap
from anyrig.speech import engines
from anyrig.speech.engine import OptionValue, SpeechEngine, Utterance
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.speech.check import Verdict
    from anyrig.speech.engine import Take

log = logging.getLogger(__name__)
TRIES = 3
"""How often a bad take is made again."""
_OTHER_SEED = 7919  # far from the seeds of other lines
_LINES_PER_THREAD, _USUAL_COST = 4, 120.0
_TRIM_EVERY = 1024  # lines on a CPU: seldom, as what is given back must be fetched again


@dataclass(frozen=True)
class Recording:
    """A take, packed for the way and for the store."""

    data: bytes
    problems: tuple[str, ...] = ()
    """What the checks still have against it."""
    tries: int = 1
    """How often it was made."""
    hopeless: bool = False
    """Whether nothing of the text can be heard in it: not worth keeping."""
    made_by: str = ""
    """The worker of a cluster that made it, as the asker knows it; empty for this machine."""


class Booth(BaseEngine):
    """An engine with ears."""

    def __init__(
        self,
        placement: Placement,
        *,
        engine: str,
        folder: str = "",
        options: dict[str, OptionValue] | None = None,
        tries: int = TRIES,
    ) -> None:
        """Load the engine."""
        self._engine: SpeechEngine = engines.load_engine(
            placement, engine=engine, folder=folder, options=options
        )
        made = self._engine
        self.name, self.version = made.name, made.version
        self.pads, self.batch_invariant = made.pads, made.batch_invariant
        self.max_items, self.memory_options, self.handle = (
            made.max_items,
            made.memory_options,
            made.handle,
        )
        self._again = tries if made.info.varies_with_seed else 0
        self._threads = _threads(placement, made)
        if self._threads is not None:  # a line alone would leave the others idle
            self.first_batch_cost = _LINES_PER_THREAD * _USUAL_COST * placement.threads
        self._on_host = placement.device.kind == "cpu"
        self._said = 0

    def run(self, batch: Sequence[Utterance]) -> list[Recording]:
        """A recording of each line, in order."""
        before, self._said = self._said, self._said + len(batch)
        if self._on_host and self._said // _TRIM_EVERY > before // _TRIM_EVERY:
            trim_heap()
        if self._threads is not None and len(batch) > 1:
            # A line each, the longest first, so that none ends long after the others.
            order = sorted(range(len(batch)), key=lambda n: -batch[n].cost)
            done = self._threads.map(lambda n: (n, self._made([batch[n]])[0]), order)
            return [recording for _, recording in sorted(done, key=lambda pair: pair[0])]
        return self._made(batch)

    def _made(self, batch: Sequence[Utterance]) -> list[Recording]:
        from anyrig.speech.pack import pack

        best = [(take, self._heard(take, line)) for take, line in self._takes(batch)]
        tries = [1] * len(batch)
        for attempt in range(1, self._again + 1):
            bad = [n for n, (_, verdict) in enumerate(best) if verdict.problems]
            if not bad:
                break
            other = [replace(batch[n], seed=batch[n].seed + attempt * _OTHER_SEED) for n in bad]
            for n, (take, line) in zip(bad, self._takes(other), strict=True):
                tries[n] += 1
                verdict = self._heard(take, line)
                if verdict.score > best[n][1].score:
                    best[n] = (take, verdict)
        return [
            Recording(
                pack(take),
                tuple(problem.said for problem in verdict.problems),
                count,
                verdict.score <= 0.0,
            )
            for (take, verdict), count in zip(best, tries, strict=True)
        ]

    def _takes(self, lines: Sequence[Utterance]) -> list[tuple[Take, Utterance]]:
        return list(zip(self._engine.run(lines), lines, strict=True))

    def _heard(self, take: Take, line: Utterance) -> Verdict:
        from anyrig.speech.check import examine

        verdict = examine(take, line)
        for problem in verdict.problems:
            log.info("%s: %r", problem.said, line.text[:80])
        return verdict


def _threads(placement: Placement, engine: SpeechEngine) -> ThreadPoolExecutor | None:
    """Threads that say a line each, where the engine can be called from several at once."""
    count = min(placement.threads, engine.cores or 1)
    if placement.device.kind == "gpu" or count < 2:
        return None
    return ThreadPoolExecutor(count, thread_name_prefix="anyrig-booth")
