"""How fast each voice speaks and how fast it is made here: measured by every book, kept in a file.

Before a voice has been measured, a length is a guess, and is called one.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from anyrig.errors import AnyrigError
from anyrig.storage.files import write_atomic

log = logging.getLogger(__name__)
_GUESS_S = 0.065  # of speech for a character, of voices in English, Spanish and French
_ENOUGH = 2000  # characters: fewer tell little


@dataclass(frozen=True)
class Rate:
    """What was measured of a voice."""

    seconds_per_character: float = _GUESS_S
    """Of speech, pauses included, at its own pace."""
    times_real_time: float | None = None
    """How fast it was made on this machine, the last time that enough of it was."""
    measured: bool = False

    def audio_s(self, num_characters: int, rate: float = 1.0) -> float:
        """How long a text will be."""
        return num_characters * self.seconds_per_character / rate


def name_of(engine: str, voice: str) -> str:
    """What a voice is kept under."""
    return f"{engine} {voice}".strip()


def load(path: Path, engine: str, voice: str) -> Rate:
    """What is known of a voice; a guess where nothing is."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        found = known[name_of(engine, voice)]
        return Rate(float(found["seconds_per_character"]), found["times_real_time"], measured=True)
    except (OSError, ValueError, KeyError, TypeError):
        return Rate()


def load_speeds(path: Path) -> dict[str, float]:
    """How many times real time each voice was, by its engine and name; the last one comes last."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): float(one["times_real_time"]) for name, one in known.items()
                if one.get("times_real_time")}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def learn(path: Path, engine: str, voice: str, rate: Rate, num_characters: int) -> None:
    """Keep what a run has shown; a file that cannot be written costs the figure, not the book."""
    if num_characters < _ENOUGH:
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    before = load(path, engine, voice)
    kept = asdict(rate)
    if rate.times_real_time is None:
        kept["times_real_time"] = before.times_real_time
    kept.pop("measured")
    try:
        write_atomic(path, json.dumps({**known, name_of(engine, voice): kept}, indent=1))
    except (OSError, AnyrigError) as error:
        log.info("the voice's rate is not kept: %s", error)
