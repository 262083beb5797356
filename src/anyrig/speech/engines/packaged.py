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
    from anyrig.speech.engine import WordTime
    from anyrig.speech.phonemes import Word

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


class Spoken:
    """Stretches of a line put together, with the time of each word."""

    def __init__(self, unit: int, rate: int, early: int = 0) -> None:
        """Nothing yet.

        Args:
            unit: samples that a duration of 1 lasts.
            rate: samples per second.
            early: how many units before its durations say a word is heard.
        """
        self.parts: list[Samples] = []
        self.words: list[WordTime] = []
        self._unit, self._rate, self._early, self._length = unit, rate, early, 0

    def add(
        self, wave: Samples, durations: Sequence[int], words: Sequence[Word], owners: Sequence[int]
    ) -> None:
        """Another stretch.

        Args:
            wave: its samples.
            durations: in units, for each phoneme and for the zeros at both ends; empty if unknown.
            words: what it says.
            owners: for each phoneme, its word.
        """
        from anyrig.speech.engine import WordTime

        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        at = self._length + max(0, durations[0] - self._early) * self._unit if durations else 0
        for owner, duration in zip(owners, durations[1:-1], strict=True) if durations else ():
            starts.setdefault(owner, at)
            at += duration * self._unit
            ends[owner] = at
        self._length += len(wave)
        self.parts.append(wave)
        for owner, start in starts.items():
            if words[owner].spoken:
                end = min(ends[owner], self._length)
                text = words[owner].text
                self.words.append(WordTime(text, start / self._rate, end / self._rate))

    def samples(self) -> Samples:
        """All of it."""
        import numpy as np

        whole = self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)
        return np.ascontiguousarray(whole, np.float32)
