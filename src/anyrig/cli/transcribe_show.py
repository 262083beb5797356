"""Transcripts on their way, as people and programs see them: a line that moves, a log, or JSON."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.cli.escape import esc
from anyrig.cli.show import print_warning
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.recognise.gather import Progress
    from anyrig.recognise.sound import Sound
    from anyrig.services.transcribe import Done, Source

_LIVE_S, _LOG_S, _JSON_S = 0.5, 15.0, 0.5
_MOST_DOUBTS = 5


class Show:
    """Tells how far it is."""

    def __init__(self, context: Context, num_files: int) -> None:
        self._json = bool(context.options.json)
        self._live = not self._json and sys.stderr.isatty()
        self._num_files, self._number = num_files, 0
        self._began = self._file_began = time.monotonic()
        self._now: Progress | None = None
        self._first_s = 0.0
        self._name = ""
        self._whole_s: float | None = None
        self._next = self._began + (0.0 if self._json or self._live else _LOG_S)
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Show:
        if self._live:
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.clear()

    def begin(self, source: Source, sound: Sound) -> None:
        """The next recording."""
        with self._lock:
            self._number += 1
            self._name, self._whole_s = source.path.name, sound.duration_s
            self._file_began, self._now, self._first_s = time.monotonic(), None, 0.0

    def progress(self, now: Progress) -> None:
        """One more piece was heard; tells now and then."""
        with self._lock:
            if now.kept:  # what was kept says nothing of the speed
                self._first_s = now.heard_s
            self._now = now
            clock = time.monotonic()
            if clock < self._next:
                return
            self._next = clock + (_JSON_S if self._json else _LIVE_S if self._live else _LOG_S)
            if self._json:
                self._put(self._plain(now))
            elif not self._live:
                print(self._line(200), file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._live:
            with self._lock:
                self._now = None
                print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)

    def through(self, done: Done) -> None:
        """A recording is through: what was found, for people."""
        heard = done.heard
        assert heard is not None
        for warning in heard.warnings:
            print_warning(warning)
        for gap in heard.gaps:
            where = f"{gap.start_s:.1f} s to {gap.end_s:.1f} s"
            print_warning(f"{heard.name}: {where} could not be heard: {gap.why}")
        for line in heard.doubtful[:_MOST_DOUBTS]:
            at = f"{heard.name} at {line.start_s:.1f} s"
            print_warning(f"{at}: {line.doubt}: {line.text[:50]!r}")
        if len(heard.doubtful) > _MOST_DOUBTS:
            print_warning(f"{len(heard.doubtful) - _MOST_DOUBTS} more lines are doubtful")
        if self._json:
            return
        wall_s = time.monotonic() - self._file_began
        facts = [f"{heard.duration_s / max(wall_s, 1e-3):.1f} times real time"]
        if heard.num_kept:
            facts.append(f"{heard.num_kept} of {pluralize(len(heard.pieces), 'piece')} kept")
        facts.append(f"by {heard.model}")
        told = (heard.language, heard.language_reason)
        facts.append(": ".join(filter(None, told)))
        names = ", ".join(map(str, done.files)) or heard.name
        lasts = f"{format_duration(heard.duration_s)} in {format_duration(wall_s)}"
        out = sys.stdout if done.files else sys.stderr
        print(f"{names}: {lasts} ({', '.join(facts)})", file=out)

    def end(self, done: list[Done], failed: list[dict[str, str]], *, written_out: bool) -> None:
        """All that was made, as the last event for programs."""
        from anyrig.recognise.forms import plain

        heard = [one.heard for one in done if one.heard is not None]
        made: dict[str, Any] = {
            "event": "done",
            "files": [str(path) for one in done for path in one.files],
            "language": heard[0].language if len(heard) == 1 else None,
            "engine": heard[0].model if len(heard) == 1 else None,
            "audio_s": round(sum(one.duration_s for one in heard), 3),
            "wall_s": round(time.monotonic() - self._began, 3),
            "kept": sum(one.num_kept for one in heard),
            "failed": failed,
        }
        if not written_out:
            made["transcripts"] = [plain(one) for one in heard]
        self._put(made)

    def _tick(self) -> None:
        while not self._over.wait(_LIVE_S):
            with self._lock:
                if self._name:
                    room = shutil.get_terminal_size().columns - 1
                    line = self._line(room)
                    print(f"\r{esc(sys.stderr)}[2K{line}", end="", file=sys.stderr, flush=True)

    def _rates(self) -> tuple[float, float | None, float | None]:
        """Seconds that were heard, times real time, seconds left."""
        heard_s = self._now.heard_s if self._now is not None else 0.0
        spent_s = time.monotonic() - self._file_began
        fresh_s = heard_s - self._first_s
        speed = fresh_s / spent_s if fresh_s > 0 and spent_s > 0 else None
        left_s = None
        if speed and self._whole_s:
            left_s = max(0.0, self._whole_s - heard_s) / speed
        return heard_s, speed, left_s

    def _line(self, room: int) -> str:
        """`talk.mp3 45 %, 11.2 times real time, 3 min 05 s left  and so they went`."""
        heard_s, speed, left_s = self._rates()
        place = f"{self._number}/{self._num_files} " if self._num_files > 1 else ""
        share = (
            f" {heard_s / self._whole_s:4.0%}" if self._whole_s else f" {format_duration(heard_s)}"
        )
        parts = [f"{place}{self._name}{share}"]
        parts.append(f"{speed:.1f} times real time" if speed else "loading")
        if left_s:
            parts.append(f"{format_duration(left_s)} left")
        text = self._now.text if self._now is not None else ""
        return f"{', '.join(parts)}  {text}"[:room]

    def _plain(self, now: Progress) -> dict[str, Any]:
        heard_s, speed, left_s = self._rates()
        share = heard_s / self._whole_s if self._whole_s else None
        done = None if share is None else (self._number - 1 + min(1.0, share)) / self._num_files
        return {
            "event": "progress", "stage": "listening", "title": self._name,
            "done": None if done is None else round(done, 4), "audio_s": round(heard_s, 2),
            "speed": None if speed is None else round(speed, 2),
            "left_s": None if left_s is None else round(left_s, 1), "text": now.text,
        }  # fmt: skip

    @staticmethod
    def _put(event: dict[str, Any]) -> None:
        print(json.dumps(event, allow_nan=False, default=str), flush=True)
