"""Stretches of a finished book, heard: where it is cut, which part of it is a sample, by whom.

A stretch is cut in pauses and is under half a minute: what Whisper takes at once.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from anyrig.errors import InvalidInputError, Message, MissingPackageError
from anyrig.transcription.choose import choose, recipe
from anyrig.transcription.protocol import Recording, Transcript

if TYPE_CHECKING:
    from anyrig.audiobooks.check_passages import Row
    from anyrig.audiobooks.check_sound import Stretch
    from anyrig.devices.machine import Machine
    from anyrig.placement import Placement
    from anyrig.work.outcome import ItemOutcome

LEAST_S, MOST_S = 10.0, 27.0
AGAIN_LEAST_S, AGAIN_MOST_S = 3.0, 12.0
_LOOK_AHEAD = 4  # stretches for each worker; one of 27 s is 2.6 MB


class Ears(Protocol):
    """Who hears."""

    def name(self, language: str) -> str:
        """Of the recogniser of a language.

        InvalidInputError or MissingPackageError when there is none.
        """

    def hear(self, recordings: Iterable[Recording], language: str) -> Iterator[str | None]:
        """What is said in each; None for one that could not be heard."""


class Listeners:
    """The recognisers of this machine, in as many processes as it has cores for."""

    def __init__(self, machine: Machine, *, environment: Mapping[str, str], folder: str) -> None:
        """Start nothing yet.

        Args:
            machine: all devices.
            environment: this process's own.
            folder: where a model that comes in parts may be put together.
        """
        self._machine, self._environment, self._folder = machine, environment, folder

    def name(self, language: str) -> str:
        """Of the recogniser of a language."""
        return choose(language).name

    def hear(self, recordings: Iterable[Recording], language: str) -> Iterator[str | None]:
        """What is said in each."""
        from anyrig.work.pool import WorkerPool
        from anyrig.work.worker import LocalWorkers

        how = recipe(language, folder=self._folder)
        seats = self._seats()
        ahead = _LOOK_AHEAD * sum(seat.workers for seat in seats)
        with WorkerPool(LocalWorkers(seats, how, environment=self._environment)) as pool:
            outcome: ItemOutcome[Transcript]
            for outcome in pool.run(recordings, cost=lambda one: one.cost, look_ahead=ahead):
                yield None if outcome.result is None else outcome.result.text

    def _seats(self) -> tuple[Placement, ...]:
        """The CPU: the recognisers are small, and have no way to a GPU."""
        from anyrig.devices.choose import DeviceRequest, choose_device
        from anyrig.placement import Workload, plan_placement

        need = Workload(
            "the recogniser", libraries=("onnx",), gpu=False, cores=1, worker_bytes=600 << 20
        )
        choice = choose_device(self._machine, (DeviceRequest("cpu", "flag"),))
        return plan_placement(self._machine, choice, need, environment=self._environment).placements


def deaf(ears: Ears, language: str) -> str:
    """Why nobody hears a language; empty when somebody does."""
    try:
        ears.name(language)
    except (InvalidInputError, MissingPackageError) as error:
        return Message("{problem} ({hint})", problem=error.message, hint=error.hint)
    return ""


def stretches(
    quiet: Sequence[Stretch],
    start_s: float,
    end_s: float,
    least_s: float = LEAST_S,
    most_s: float = MOST_S,
) -> list[Stretch]:
    """From `start_s` to `end_s`, cut in the longest pauses that keep each under `most_s`."""
    made: list[Stretch] = []
    middles = [(start + end) / 2 for start, end in quiet]
    at = start_s
    while end_s - at > most_s:
        low, high = bisect_left(middles, at + least_s), bisect_right(middles, at + most_s)
        fit = [(min(quiet[n][1] - quiet[n][0], 1.0), middles[n]) for n in range(low, high)]
        cut = max(fit)[1] if fit else at + most_s
        made.append((at, cut))
        at = cut
    made.append((at, end_s))
    return made


def sampled(cut: Sequence[Stretch], wanted_s: float, seed: str) -> list[int]:
    """Which stretches are a sample of a chapter: spread over it, at least one, always the same."""
    if not cut:
        return []
    usual_s = (cut[-1][1] - cut[0][0]) / len(cut)
    count = max(1, min(len(cut), round(wanted_s / max(usual_s, 1e-3))))
    chance = random.Random(seed)
    picked = []
    for number in range(count):
        low, high = number * len(cut) // count, (number + 1) * len(cut) // count
        picked.append(chance.randrange(low, max(low + 1, high)))
    return picked


def laid_out(
    row: Row, text: str, stretch: Stretch, quiet: Sequence[Stretch], language: str
) -> None:
    """Add what was heard in a stretch to a row, each word with the time it is likely heard.

    The recognisers tell no times: letters are laid out evenly over what is not silent.
    """
    words = text.split()
    letters = sum(map(len, words))
    sounding = _sounding(stretch, quiet)
    total_s = sum(end - start for start, end in sounding)
    before = 0
    for word in words:
        start = _at(sounding, total_s * before / letters)
        before += len(word)
        row.add(word, (start, _at(sounding, total_s * before / letters)), language)


def _sounding(stretch: Stretch, quiet: Sequence[Stretch]) -> list[Stretch]:
    made: list[Stretch] = []
    at, stop = stretch
    for start, end in quiet[bisect_right(quiet, at, key=_end) :]:
        if start >= stop:
            break
        if start > at:
            made.append((at, start))
        at = min(end, stop)
    if at < stop:
        made.append((at, stop))
    return made or [stretch]


def _end(stretch: Stretch) -> float:
    return stretch[1]


def _at(sounding: Sequence[Stretch], passed_s: float) -> float:
    for start, end in sounding:
        if passed_s <= end - start:
            return start + passed_s
        passed_s -= end - start
    return sounding[-1][1]
