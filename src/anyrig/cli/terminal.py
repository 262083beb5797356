"""A terminal to draw on: the other screen, keys without return, everything as it was on leaving.

Plain escape codes, and only the lines that changed: a frame costs well under a millisecond, where a
general-purpose library redraws all of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from anyrig.cli.escape import esc

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
# Arrows and the like: escape and what follows. They are no keys of ours.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O.|.)?", re.DOTALL)
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"


def is_terminal() -> bool:
    """Whether somebody sees what is written, can press keys, and escape codes move the cursor."""
    seen = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    return seen and not _is_dumb()


def wants_colours() -> bool:
    """Whether the terminal and its user want colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and not _is_dumb()


def _is_dumb() -> bool:
    """Whether the terminal prints escape codes instead of obeying them."""
    return os.environ.get("TERM") == "dumb"


def takes_unicode() -> bool:
    """Whether blocks and dots can be written: not through an old code page."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16", "cp65001")


class Terminal:
    """The screen while the view is open."""

    def __init__(self) -> None:
        self._before: list[str] = []
        self._size = (0, 0)
        self._saved: Any = None
        self._handlers: dict[int, Any] = {}
        self._typed: list[str] = []

    def __enter__(self) -> Terminal:
        self._enter()
        for name in ("SIGTERM", "SIGHUP"):
            self._handle(name, _end)
        self._handle("SIGTSTP", self._suspend)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now: an exported COLUMNS does not follow a resize."""
        try:
            found = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            found = shutil.get_terminal_size()
        return found.columns, found.lines

    def draw(self, lines: Sequence[str]) -> None:
        """Write what changed since the last frame; all of it after a resize."""
        anew = self._size != self.size
        self._size = self.size
        mark = esc(sys.stdout)
        parts = [f"{mark}[2J"] if anew else []
        before = [] if anew else self._before
        for number in range(max(len(lines), len(before))):
            text = lines[number] if number < len(lines) else ""
            if number >= len(before) or before[number] != text:
                parts.append(f"{mark}[{number + 1};1H{text}{mark}[0m{mark}[K")
        self._before = list(lines)
        if parts:
            sys.stdout.write("".join(parts))
            sys.stdout.flush()

    def key(self, wait_s: float) -> str:
        """The next key, or nothing when none is pressed for so long."""
        if sys.platform == "win32":
            return _windows_key(wait_s)
        import select

        if not self._typed and select.select([sys.stdin], [], [], wait_s)[0]:
            pressed = os.read(sys.stdin.fileno(), 64)
            if not pressed:  # the terminal was closed
                raise EOFError
            self._typed = list(_SEQUENCE.sub("", pressed.decode("utf-8", "replace")))
        return self._typed.pop(0) if self._typed else ""

    def _enter(self) -> None:
        if sys.platform == "win32":
            os.system("")  # switches escape codes on in older consoles
        else:
            import termios
            import tty

            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        self._before, self._size = [], (0, 0)
        sys.stdout.write(_ENTER.replace("\x1b", esc(sys.stdout)))
        sys.stdout.flush()

    def _leave(self) -> None:
        # The terminal may have gone: nothing to restore then.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(_LEAVE.replace("\x1b", esc(sys.stdout)))
            sys.stdout.flush()
        if self._saved is not None:
            import termios

            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)
            self._saved = None

    def _handle(self, name: str, handler: Any) -> None:
        number = getattr(signal, name, None)
        if number is not None:
            self._handlers[number] = signal.signal(number, handler)

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back, and take it again when the user comes back."""
        self._leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # Here the process stands still until it is continued.
        signal.signal(number, self._suspend)
        self._enter()


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _windows_key(wait_s: float) -> str:
    """Windows has no select for a console: looked at a few times instead."""
    if sys.platform != "win32":
        return ""
    import msvcrt

    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        if msvcrt.kbhit():
            key = msvcrt.getwch()
            if key in ("\x00", "\xe0"):  # an arrow: its second half follows
                msvcrt.getwch()
                return ""
            if key == "\x03":
                raise KeyboardInterrupt
            return key
        time.sleep(0.05)
    return ""
