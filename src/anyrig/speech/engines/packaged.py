"""Weights that come inside Python packages: found without importing them, checked by hash.

Also what engines with durations share: parts put together into a take with its word times.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import MissingPackageError, MissingWeightsError
from anyrig.speech.engine import EngineInfo

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.speech.engine import Take, WordTime
    from anyrig.speech.phonemes import Word

_MARK_PAUSE_S = 0.3
"""Between two parts that are cut at punctuation: hibari makes 0.2 to 0.45 s at a comma."""
_JOIN_KEEP_S = 0.015
KOKORO_EARLY = 2
"""In Kokoro's family a word is heard this many units of 25 ms before its durations say."""


def folder(info: EngineInfo, module: str) -> Path:
    """Where a package lies; it is not imported."""
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise missing(info, module)
    return Path(next(iter(found.submodule_search_locations)))


def missing(info: EngineInfo, module: str) -> MissingPackageError:
    """The error for a package that an engine needs."""
    return MissingPackageError(
        f"the engine {info.name} needs the package {module}", hint=info.install
    )


def version(info: EngineInfo, distribution: str) -> str:
    """A package's version."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise missing(info, distribution) from None


def table(module: str, name: str) -> dict[str, int]:
    """A table of signs and numbers in an installed package."""
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.submodule_search_locations
    path = Path(next(iter(found.submodule_search_locations))) / name
    read: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return read


def check(path: Path, sha256: str) -> None:
    """That a file is the one published."""
    if not path.is_file():
        raise MissingWeightsError(f"{path} does not exist", hint="Install its package again.")
    if hash_now(path) != sha256:
        raise MissingWeightsError(
            f"{path} is not the published file: its SHA-256 differs",
            hint=f"Delete it and download it again; its SHA-256 must be {sha256}.",
        )


def hash_now(path: Path) -> str:
    """A file's sha256, reckoned again only when the file changes."""
    return hash_joined((path,))


def hash_joined(paths: tuple[Path, ...]) -> str:
    """The sha256 of files laid end to end."""
    states = [path.stat() for path in paths]
    return _hash(paths, tuple((state.st_size, state.st_mtime_ns) for state in states))


@lru_cache(maxsize=128)
def _hash(paths: tuple[Path, ...], _state: tuple[tuple[int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def together(hashes: Iterable[str]) -> str:
    """One hash of several."""
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


class TakeBuilder:
    """The take of an utterance that a model speaks in parts, with the time of each word.

    A part has silence at both ends, 0.7 s where two meet. It is cut at the join, to the pause that
    these voices make at a comma, or to nothing between two words.
    """

    def __init__(self, unit: int, rate: int, early: int = 0) -> None:
        """Start with nothing.

        Args:
            unit: samples that a duration of 1 lasts.
            rate: samples per second.
            early: how many units before its durations say a word is heard.
        """
        self._parts: list[Samples] = []
        self._words: list[WordTime] = []
        self._unit, self._rate, self._early, self._length = unit, rate, early, 0
        self._ends_with_mark = False

    def add(
        self, wave: Samples, durations: Sequence[int], words: Sequence[Word], owners: Sequence[int]
    ) -> None:
        """Add a part.

        Args:
            wave: its samples.
            durations: in units, for each phoneme and for the zeros at both ends; empty if unknown.
            words: what it says.
            owners: for each phoneme, its word.
        """
        from anyrig.speech.engine import WordTime

        lead = self._join(wave) if self._parts else 0
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        at = self._length - lead
        at += max(0, durations[0] - self._early) * self._unit if durations else 0
        for owner, duration in zip(owners, durations[1:-1], strict=True) if durations else ():
            starts.setdefault(owner, max(self._length, at))
            at += duration * self._unit
            ends[owner] = at
        self._append(wave[lead:])
        for owner, start in starts.items():
            if words[owner].spoken:
                end = min(ends[owner], self._length)
                text = words[owner].text
                self._words.append(WordTime(text, start / self._rate, end / self._rate))
        self._ends_with_mark = bool(words) and not words[-1].spoken

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def build(self) -> Take:
        """The whole take."""
        import numpy as np

        from anyrig.speech.engine import Take

        whole = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        return Take(np.ascontiguousarray(whole, np.float32), self._rate, tuple(self._words))

    def _append(self, wave: Samples) -> None:
        self._parts.append(wave)
        self._length += len(wave)

    def _join(self, wave: Samples) -> int:
        """Cut the silence before the next part; how many samples to cut at its beginning."""
        from anyrig.audio.samples import FADE_S, count_samples, fade, find_sound, silence
        from anyrig.speech.engine import WordTime

        last = self._parts.pop()
        self._length -= len(last)
        _, end = find_sound(last, self._rate, keep_s=_JOIN_KEEP_S)
        begin, _ = find_sound(wave, self._rate, keep_s=_JOIN_KEEP_S)
        self._append(fade(last[:end], self._rate, start=False))
        if self._ends_with_mark:
            self._append(silence(_MARK_PAUSE_S - 2 * _JOIN_KEEP_S, self._rate))
        length = count_samples(FADE_S, self._rate)
        wave[begin : begin + length] = fade(wave[begin:], self._rate, end=False)[:length]
        if self._words:
            word, limit = self._words[-1], self._length / self._rate
            self._words[-1] = WordTime(word.text, word.start_s, min(word.end_s, limit))
        return begin
