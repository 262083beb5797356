"""Several nodes of one machine: a process for each, started again where one dies."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyrig.cli.beat import Beat
from anyrig.cli.context import Context
from anyrig.cli.output import print_warning

if TYPE_CHECKING:
    from anyrig.cli.worker import Post

log = logging.getLogger(__name__)
_FIRST_S, _MOST_S = 1.0, 60.0
_WELL_S = 60.0
"""A node that lived so long was well: its next death begins a new count."""
_LOOK_S = 0.2
_END_S = 40.0
_HOPELESS = (2, 3, 4)
"""Exit codes of what would be the same at the next start: wrong input, no device, no package."""


@dataclass(eq=False)
class _Child:
    """One node's process, or the next one's turn."""

    post: Post
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    wait_s: float = _FIRST_S
    not_before: float = 0.0
    code: int | None = None
    """Set when it will not be started again."""


class Many:
    """The parent of nodes: passes signals on, and ends with them.

    Args:
        context: of the command.
        posts: the nodes.
        url: of the broker.
    """

    def __init__(self, context: Context, posts: Sequence[Post], url: str) -> None:
        self._context, self._url = context, url
        self._children = [_Child(post) for post in posts]
        self._ended = False
        self._beat = Beat(context.environment, ".all")

    def run(self) -> int:
        """Until all have left; the exit code of the worst."""
        from anyrig.cli.worker_node import joined
        from anyrig.cluster.link import Link

        link = Link(self._url)
        try:
            joined(self._context, link, self._beat)  # what none of them could do is told once
        finally:
            link.close()
        with self._signalled():
            try:
                while any(child.code is None for child in self._children):
                    for child in self._children:
                        self._look(child)
                    self._beat()
                    time.sleep(_LOOK_S)
            finally:
                self._beat.end()
                self._end_all()
        return max(child.code or 0 for child in self._children)

    def _look(self, child: _Child) -> None:
        if child.code is not None:
            return
        now = time.monotonic()
        if child.process is None:
            if self._ended:
                child.code = 0
            elif now >= child.not_before:
                self._start(child, now)
            return
        code = child.process.poll()
        if code is None:
            return
        _close(child)
        if code == 0 or code in _HOPELESS or self._ended:
            child.code = max(0, code)
            Beat(self._context.environment, child.post.name).end()  # it is not waited for
            return
        if now - child.began > _WELL_S:
            child.wait_s = _FIRST_S
        said = f"died of signal {-code}" if code < 0 else f"ended with {code}"
        print_warning(f"{child.post.name} {said}; started again in {child.wait_s:g} s")
        child.not_before = now + child.wait_s
        child.wait_s = min(_MOST_S, 2 * child.wait_s)

    def _start(self, child: _Child, now: float) -> None:
        # The address may hold a password, which does not belong on a command line. A session of
        # its own: Ctrl+C reaches this process alone, which passes it on once.
        child.process = subprocess.Popen(
            [sys.executable, "-m", "anyrig", *self._words(child.post)], stdin=subprocess.PIPE,
            env={**os.environ, **self._context.environment, "ANYRIG_CLUSTER_BROKER": self._url},
            start_new_session=True,
        )  # fmt: skip
        child.began = now
        log.info("%s is process %d", child.post.name, child.process.pid)

    def _words(self, post: Post) -> list[str]:
        """The command line of one node."""
        options = self._context.options
        words = ["worker", "--device", post.device.id, "--name", post.name, "--tied",
                 "--node", f"{post.number}/{post.share}"]  # fmt: skip
        for name in ("strict", "no_bench", "json"):
            if getattr(options, name):
                words.append(f"--{name.replace('_', '-')}")
        for name in ("config", "log_file", "precision", "profile", "memory_gb", "memory_fraction",
                     "workers_per_device", "wait"):  # fmt: skip
            value = getattr(options, name, None)
            if value is not None:
                words.append(f"--{name.replace('_', '-')}={value}")
        return words + ["-v"] * options.verbose

    # -- the end ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signalled(self) -> Any:
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._signal) for number in numbers}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def _signal(self, number: int, frame: object) -> None:
        self._ended = True
        for child in self._children:
            if child.process is not None and child.process.poll() is None:
                child.process.terminate()

    def _end_all(self) -> None:
        """Nobody is left behind, whatever went wrong."""
        left = [child for child in self._children if child.process is not None]
        for child in left:
            assert child.process is not None
            if child.process.poll() is None:
                child.process.terminate()
        end = time.monotonic() + _END_S
        for child in left:
            assert child.process is not None
            try:
                child.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
            _close(child)


def _close(child: _Child) -> None:
    process, child.process = child.process, None
    if process is not None:
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
