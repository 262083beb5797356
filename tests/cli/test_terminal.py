"""`anyrig top` on a real terminal: keys, resizing, and everything as it was on leaving."""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?25h\x1b[?1049l"
pty_only = pytest.mark.skipif(sys.platform == "win32", reason="needs a Unix terminal")


class Screen:
    """The far end of a terminal."""

    def __init__(self, fd: int, pid: int) -> None:
        self.fd, self.pid, self.seen = fd, pid, b""

    def until(self, words: bytes, seconds: float = 60.0) -> bytes:
        """Read until something is shown; what was shown since the last call."""
        start, end = len(self.seen), time.monotonic() + seconds
        while words not in self.seen[start:]:
            assert time.monotonic() < end, self.seen[start:]
            ready, _, _ = select.select([self.fd], [], [], 0.2)
            if ready:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:  # the other end has closed
                    break
        assert words in self.seen[start:], self.seen[start:]
        return self.seen[start:]

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def resize(self, columns: int, rows: int) -> None:
        import fcntl
        import termios

        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def echoes(self) -> bool:
        import termios

        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def exit_code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def opened(*words: str, colours: bool = False, term: str = "xterm") -> Iterator[Screen]:
    import pty

    pid, fd = pty.fork()
    if pid == 0:
        environment = {**os.environ, "TERM": term, "PYTHONIOENCODING": "utf-8"}
        if colours:
            environment.pop("NO_COLOR")
        command = [sys.executable, "-m", "anyrig", "top", "--interval", "0.2", *words]
        os.execve(sys.executable, command, environment)
    screen = Screen(fd, pid)
    screen.resize(100, 30)
    try:
        yield screen
    finally:
        os.close(fd)


@pty_only
@pytest.mark.parametrize("end", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_the_view_opens_and_leaves_everything_as_it_was(end: bytes) -> None:
    with opened() as screen:
        screen.until(ENTER)
        screen.until(b"CPU ")
        assert not screen.echoes()
        screen.type(end)
        screen.until(LEAVE)
        assert screen.exit_code() == 0
        assert screen.echoes()
    assert b"Traceback" not in screen.seen


@pty_only
def test_a_request_to_end_restores_the_terminal_too() -> None:
    with opened() as screen:
        screen.until(b"CPU ")
        os.kill(screen.pid, signal.SIGTERM)
        screen.until(LEAVE)
        assert screen.exit_code() == 128 + signal.SIGTERM
        assert screen.echoes()


@pty_only
def test_keys_and_resizing() -> None:
    with opened() as screen:
        screen.until(b"CPU ")
        screen.type(b"h")
        screen.until(b"sort processes by memory")
        screen.type(b"h")
        screen.until(b"load ")
        screen.type(b"p")
        screen.until(b"paused")
        screen.type(b"\x1b[A")  # an arrow does nothing
        screen.resize(60, 12)
        screen.until(b"\x1b[2J")
        screen.type(b"p\x1b[Bsq")  # typed ahead, with an arrow in between
        screen.until(LEAVE)
        assert screen.exit_code() == 0


@pty_only
def test_it_leaves_after_so_many_samples() -> None:
    with opened("--count", "2") as screen:
        screen.until(LEAVE)
        assert screen.exit_code() == 0


@pty_only
def test_colours_are_a_wish() -> None:
    with opened("--count", "2") as screen:
        screen.until(LEAVE)
    assert b"\x1b[1m" not in screen.seen
    with opened("--count", "2", colours=True) as screen:
        screen.until(LEAVE)
    assert b"\x1b[1m" in screen.seen


@pty_only
def test_a_dumb_terminal_gets_one_plain_frame() -> None:
    with opened(term="dumb", colours=True) as screen:
        screen.until(b"process")
        assert screen.exit_code() == 0
    assert b"CPU " in screen.seen
    assert b"\x1b" not in screen.seen
