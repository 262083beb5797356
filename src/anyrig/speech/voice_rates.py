"""How fast voices speak, and how fast they were made here: what every book measures of its voice.

Light, as `anyrig speak` looks here before its first sound.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyrig.errors import AnyrigError
from anyrig.storage.files import write_atomic

log = logging.getLogger(__name__)
SECONDS_PER_CHARACTER = 0.065
"""Of voices in English, Spanish and French."""
_MIN_CHARACTERS = 2000
"""Fewer tell little of a voice."""


@dataclass(frozen=True)
class VoiceRate:
    """What is known of a voice; before it was measured, a guess."""

    seconds_per_character: float = SECONDS_PER_CHARACTER
    """Of speech, pauses included, at its own pace."""
    times_real_time: float | None = None
    """How fast it was made on this machine, the last time that enough of it was."""
    is_measured: bool = False

    def estimate_audio_s(self, num_characters: int, rate: float = 1.0) -> float:
        return num_characters * self.seconds_per_character / rate


class VoiceRates:
    """The measured rates of all voices, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, engine: str, voice: str) -> VoiceRate:
        """What is known of a voice; a guess where nothing is."""
        try:
            found = self._read()[_name_voice(engine, voice)]
            rate_s = float(found["seconds_per_character"])
            return VoiceRate(rate_s, found["times_real_time"], is_measured=True)
        except (ValueError, KeyError, TypeError):
            return VoiceRate()

    def list_speeds(self) -> dict[str, float]:
        """How many times real time each voice was, by engine and name; the last one comes last."""
        try:
            return {
                str(name): float(one["times_real_time"])
                for name, one in self._read().items()
                if one.get("times_real_time")
            }
        except (ValueError, TypeError, AttributeError):
            return {}

    def save(self, engine: str, voice: str, rate: VoiceRate, num_characters: int) -> None:
        """Save what a run has shown; a file that cannot be written costs the figure, not the run.

        Without a measured speed, the last one is kept.
        """
        if num_characters < _MIN_CHARACTERS:
            return
        speed = rate.times_real_time
        if speed is None:
            speed = self.load(engine, voice).times_real_time
        saved = {"seconds_per_character": rate.seconds_per_character, "times_real_time": speed}
        known = {**self._read(), _name_voice(engine, voice): saved}
        try:
            write_atomic(self._path, json.dumps(known, indent=1))
        except (OSError, AnyrigError) as error:
            log.info("the rate of the voice was not saved: %s", error)

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def _name_voice(engine: str, voice: str) -> str:
    return f"{engine} {voice}".strip()
