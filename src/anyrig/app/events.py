"""What an ability reports while it works: progress, warnings and notices, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressEvent:
    """How far the work is. Whoever shows it adds the speed and the time left."""

    stage: str
    """What is being done: `loading the voice`, `speaking`."""
    done: int = 0
    total: int = 0
    """0 while it is not known."""
    detail: str = ""
    """The item: a sentence, a file's name."""
    audio_s: float | None = None
    """Seconds of audio so far, where audio is made."""


@dataclass(frozen=True)
class WarningEvent:
    message: str


@dataclass(frozen=True)
class NoticeEvent:
    """Something a person at a terminal wants to know, such as that a device is measured first."""

    message: str


Event = ProgressEvent | WarningEvent | NoticeEvent
OnEvent = Callable[[Event], None]
