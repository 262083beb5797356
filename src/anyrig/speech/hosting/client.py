"""A host, kept running: asked with deadlines, started again once when it dies or hangs.

What a host says of memory and lost devices leaves as anyrig's own errors, so that `work` treats a
hosted engine like any other: batches are split, devices set aside, bad lines blamed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    DeviceLostError,
    InvalidInputError,
    Message,
    OutOfMemoryError,
    UnsafePickleError,
    WorkError,
)
from anyrig.memory import oom
from anyrig.speech.engine import Utterance
from anyrig.speech.hosting import host
from anyrig.speech.hosting.host import PROTOCOL, Frame
from anyrig.speech.hosting.wire import HostGone, Line

log = logging.getLogger(__name__)
_STARTS = 2
"""A host that fails is started anew once; after that the lines it had are to blame."""
_IDLE_S = 60.0


@dataclass(frozen=True)
class Deadlines:
    """How long silence may last. Generous: a slow host is better than a killed one."""

    start_s: float = 120.0
    """Until a fresh interpreter says hello."""
    load_s: float = 900.0
    first_s: float = 600.0
    """More for the first line of a host: voices are prepared, and libraries compile themselves."""
    line_s: float = 240.0
    character_s: float = 3.0
    """More for each character of a line; a CPU may need ten times the length of the audio."""
    ping_s: float = 30.0

    def of(self, lines: Sequence[Utterance]) -> float:
        """For one answer to these lines: the host says them in an order of its own."""
        return self.line_s + self.character_s * max((len(line.text) for line in lines), default=0)


class Part(NamedTuple):
    """Samples of a line as they come."""

    line: int
    data: bytes
    """32-bit floats, little-endian."""
    rate: int
    last: bool
    """Whether the line is done; such a part may be empty."""


class Client:
    """One engine in one environment. Not for two threads at a time."""

    def __init__(
        self,
        python: Path | str,
        engine: str,
        environment: Mapping[str, str],
        *,
        load: Mapping[str, Any] | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            python: the interpreter of the engine's environment.
            engine: a name of host.ADAPTERS, or `module:Class` that the environment brings.
            environment: everything the host sees.
            load: what it is told to load at every start; None for a host that only converts.
            deadlines: how long to wait.
        """
        # -I: neither this folder nor PYTHONPATH, whose packages are those that clash.
        self._command = [str(python), "-I", "-X", "utf8", str(host.__file__), "--engine", engine]
        self._environment, self._engine = dict(environment), engine
        self._ask = None if load is None else dict(load)
        self._deadlines = deadlines or Deadlines()
        self._line: Line | None = None
        self._number = 0
        self._heard = self._first_s = 0.0
        self.hello: dict[str, Any] = {}
        self.ready: dict[str, Any] = {}

    @property
    def pid(self) -> int | None:
        """The host's process, while it runs."""
        return self._line.pid if self._line else None

    def start(self) -> None:
        """Start the host and load, unless it runs and answers."""
        if self._line is not None and not self._answers():
            self.kill()
        if self._line is None:
            self._start()

    def voices(self) -> list[str]:
        """What the loaded engine can speak with."""
        self.start()
        return [
            str(name) for name in self._one({"type": "voices"}, self._deadlines.load_s)["voices"]
        ]

    def ping(self) -> dict[str, Any]:
        """Whether it lives, and what it is doing."""
        return self._one({"type": "ping"}, self._deadlines.ping_s)

    def speak(self, lines: Sequence[Utterance]) -> Iterator[Part]:
        """Whole lines as they are done. A host that dies is started anew for the rest, once."""
        waiting = list(range(len(lines)))
        for attempt in range(1, _STARTS + 1):
            done: set[int] = set()
            try:
                self.start()
                for part in self._whole([lines[n] for n in waiting]):
                    done.add(waiting[part.line])
                    yield part._replace(line=waiting[part.line])
                return
            except HostGone as error:
                self.kill()
                waiting = [n for n in waiting if n not in done]
                if attempt == _STARTS or not waiting:
                    said = lines[waiting[0]].text[:60] if waiting else ""
                    raise self._failed(f"saying {said!r}", error) from error
                log.warning("restarting the host process of %s: %s", self._engine, error)

    def stream(self, line: Utterance) -> Generator[Part, None, None]:
        """Parts of one line as they come; what was given away is not said again after a death."""
        self.start()
        try:
            yield from self._parts([line], stream=True)
        except HostGone as error:
            self.kill()
            raise self._failed(f"saying {line.text[:60]!r}", error) from error

    def convert(self, source: Path, target: Path, *, unsafe: bool = False) -> list[Path]:
        """A pickled voice as safetensors and JSON; UnsafePickleError when that would run code."""
        self.start()
        ask = {"type": "convert", "source": str(source), "target": str(target), "unsafe": unsafe}
        try:
            done = self._one(ask, self._deadlines.load_s)
        except HostGone as error:
            self.kill()
            raise self._failed(f"converting {source.name}", error) from error
        return [Path(path) for path in done["files"]]

    def close(self) -> None:
        """Let the host end."""
        if self._line is not None:
            self._line.bye()
            self._line = None

    def kill(self) -> None:
        """End the host for certain."""
        if self._line is not None:
            self._line.stop()
            self._line = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------------

    def _start(self) -> None:
        for attempt in range(1, _STARTS + 1):
            try:
                return self._open()
            except HostGone as error:
                self.kill()
                if attempt == _STARTS:
                    raise self._failed("starting", error) from error
                log.warning("restarting the host process of %s: %s", self._engine, error)
            except AnyrigError:
                self.kill()
                raise
        return None

    def _open(self) -> None:
        """A fresh host that has said hello and loaded."""
        self._line = Line(self._command, self._environment)
        self._first_s = self._deadlines.first_s
        frame = self._line.receive(self._deadlines.start_s, "starting").header
        if frame["type"] == "error":
            raise self._error(frame, "starting")
        if frame["type"] != "hello" or frame.get("protocol") != PROTOCOL:
            raise HostGone(f"it began with {frame.get('type')} of protocol {frame.get('protocol')}")
        self.hello = frame
        if self._ask is not None:
            self.ready = self._one({"type": "load", **self._ask}, self._deadlines.load_s)
        self._heard = time.monotonic()

    def _answers(self) -> bool:
        """Whether a host that was left alone for a while is still there."""
        if time.monotonic() - self._heard < _IDLE_S:
            return True
        try:
            self.ping()
        except (HostGone, AnyrigError):
            return False
        return True

    def _whole(self, lines: Sequence[Utterance]) -> Iterator[Part]:
        """Lines that are done; a very long one comes in several frames."""
        held: dict[int, bytes] = {}
        for part in self._parts(lines, stream=False):
            data = held.pop(part.line, b"") + part.data
            if part.last:
                yield part._replace(data=data)
            else:
                held[part.line] = data

    def _parts(self, lines: Sequence[Utterance], *, stream: bool) -> Generator[Part, None, None]:
        said = [asdict(line) for line in lines]
        number = self._send({"type": "speak", "lines": said, "stream": stream})
        seconds, left = self._deadlines.of(lines) + self._first_s, True
        try:
            while True:
                frame = self._next(number, seconds, "speaking")
                header = frame.header
                self._first_s, seconds = 0.0, self._deadlines.of(lines)
                if header["type"] == "done":
                    left = False
                    return
                yield Part(int(header["line"]), frame.payload, int(header["rate"]), header["last"])
        except (HostGone, AnyrigError):
            left = False
            raise
        finally:
            # Whoever listened has left: the host leaves the rest, and what still comes is passed.
            if left and self._line is not None:
                self._line.send({"type": "stop", "id": number})

    def _one(self, ask: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """A request with a single answer."""
        return self._next(self._send(ask), seconds, f"asked to {ask['type']}").header

    def _send(self, ask: Mapping[str, Any]) -> int:
        assert self._line is not None
        self._number += 1
        self._line.send({**ask, "id": self._number})
        return self._number

    def _next(self, number: int, seconds: float, doing: str) -> Frame:
        """The next frame that answers a request; what is left of earlier ones is passed."""
        assert self._line is not None
        until = time.monotonic() + seconds
        while True:
            frame = self._line.receive(seconds, doing, left=until - time.monotonic())
            self._heard = time.monotonic()
            if frame.header.get("id") not in (number, 0):
                continue
            if frame.header["type"] == "error":
                raise self._error(frame.header, doing)
            return frame

    def _failed(self, doing: str, error: HostGone) -> WorkError:
        return WorkError(
            f"the host of {self._engine} failed while {doing}: {error}",
            hint=Message("`anyrig engines install` installs it again. {more}", more=MORE_DETAILS),
        )

    def _error(self, frame: Mapping[str, Any], doing: str) -> AnyrigError:
        """What a host said, as one of ours."""
        log.debug("the host of %s says:\n%s", self._engine, frame.get("traceback", ""))
        said, kind = str(frame.get("said", "")), frame.get("kind")
        brief = " ".join(said.split())[:300]
        words = RuntimeError(said) if frame.get("worded") else None
        short = words is not None and oom.detect_oom(words) is not None
        lost = words is not None and oom.detect_device_loss(words) is not None
        if kind == "lost" or lost:
            return DeviceLostError(
                f"the device was lost while {doing}: {brief}", hint="Start again."
            )
        if kind == "memory" or short:
            return self._shortage(frame, doing, words)
        name = frame.get("class", "")
        if kind == "unsafe":
            return UnsafePickleError(said, hint="It is read only after an explicit yes.")
        if kind == "bad_input":
            return InvalidInputError(said, hint=f"See `anyrig engines show {self._engine}`.")
        return WorkError(
            f"{self._engine} failed while {doing}: {name}: {brief}",
            hint=Message("Another release of the engine may work. {more}", more=MORE_DETAILS),
        )

    def _shortage(
        self, frame: Mapping[str, Any], doing: str, words: RuntimeError | None
    ) -> OutOfMemoryError:
        found = oom.detect_oom(words) if words is not None else None
        of_host = frame.get("class") == "MemoryError" or (found and found.location == "host")
        where = "host" if of_host else "device"
        error = OutOfMemoryError(
            f"the {where} ran out of memory while {self._engine} was {doing}: {frame.get('said')}",
            hint="Use shorter lines, or a device with more memory.",
        )
        error.on_host = bool(of_host)
        return error
