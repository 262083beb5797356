"""`anyrig top`: the frame at every size, the forms for programs, and a real terminal."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from anyrig.cli.top_frame import (
    View,
    build_frame,
    measure_width,
    render,
)
from anyrig.devices.machine import Machine
from anyrig.monitor.sample import (
    DeviceProcess,
    DeviceSample,
    HostProcess,
    HostSample,
    MachineSnapshot,
    ThrottleReason,
)
from tests.conftest import NAMES, Anyrig

GIB = 1024**3
NOW = 1_800_000_000.0
SIZES = [(80, 24), (140, 40), (60, 15), (40, 10), (200, 60), (20, 5), (100, None)]


def sample(machine: Machine, place: int, second: float) -> DeviceSample:
    device = machine.devices[place]
    total = device.memory.total_bytes or 8 * GIB
    load = 50 + 40 * math.sin(second / 7 + place)
    ours = DeviceProcess(1000 + place, "python", total // 4, load / 2, True)
    theirs = DeviceProcess(2000 + place, "Xorg", GIB // 4, 1.0, False)
    return DeviceSample(
        device.id, device.name, second, NOW - 300 + second, compute_percent=load,
        memory_total_bytes=total, memory_used_bytes=total // 2,
        memory_own_bytes=total // 4, power_w=400.0,
        power_limit_w=700.0, temperature_c=60.0, clock_mhz=1980,
        throttling=(ThrottleReason.IDLE if place else ThrottleReason.POWER,), pcie_generation=4,
        pcie_generation_max=5, pcie_width=8, pcie_width_max=16, pcie_rx_bytes_s=2e9,
        pcie_tx_bytes_s=1e9, processes=(ours, theirs) if device.kind == "gpu" else None,
    )  # fmt: skip


def moment(machine: Machine) -> tuple[MachineSnapshot, dict[str, list[DeviceSample]]]:
    """Five minutes of figures of a machine, made up."""
    histories = {
        device.id: [sample(machine, place, float(second)) for second in range(300)]
        for place, device in enumerate(machine.devices)
    }
    known = tuple(
        HostProcess(1000 + n, "python", "ada", f"python -m anyrig train gpt2 {n}", 98.0, GIB, True)
        for n in range(len(machine.gpus))
    )
    serving = HostProcess(77, "anyrig", "ada", "anyrig serve --port 3000", 2.0, GIB // 4, True)
    other = HostProcess(2000, "Xorg", "root", "Xorg :0", 1.0, GIB // 4, False)
    host = HostSample(299.0, NOW, 40.0, (10.0, 90.0), (1.0, 0.5, 0.2), 64 * GIB, 32 * GIB,
                      4 * GIB, 8 * GIB, GIB, processes=(*known, serving, other))  # fmt: skip
    latest = tuple(histories[device.id][-1] for device in machine.devices)
    return MachineSnapshot(299.0, NOW, latest, host), histories


def text_of(machine: Machine, view: View, **changes: object) -> list[str]:
    snapshot, histories = moment(machine)
    if "devices" in changes:
        snapshot = replace(snapshot, devices=changes.pop("devices"))  # type: ignore[arg-type]
    lines = build_frame(snapshot, histories, machine, view, **changes)  # type: ignore[arg-type]
    return [render(row, colours=False) for row in lines]


# -- the frame -------------------------------------------------------------------------------------


def test_a_frame_fits_every_terminal(
    machine: Callable[..., Machine], subtests: pytest.Subtests
) -> None:
    for width, height in SIZES:
        for name in ["h200-linux", "h100x8-mig", "rtx4090-rtxpro6000-wsl2", "no-gpu"]:
            for unicode in [True, False]:
                with subtests.test(name=name, width=width):
                    lines = text_of(machine(name), View(width, height, unicode))
                    assert height is None or len(lines) <= height
                    assert all(measure_width(row) <= width for row in lines)
                    assert unicode or all(row.isascii() for row in lines)


def test_what_a_frame_of_two_gpus_says(machine: Callable[..., Machine]) -> None:
    lines = text_of(machine("rtx4090-rtxpro6000-wsl2"), View(140, 40))
    text = "\n".join(lines)
    for words in (
        "0 NVIDIA GeForce RTX 4090", "1 NVIDIA RTX PRO 6000", "CPU AMD Ryzen", "60 C  400/700 W",
        "1980 MHz", "held down by power limit", "PCIe 4 x8 of 5 x16 in 2.0 GB/s out 1.0 GB/s",
        "12.0/24 GiB", "load 1.00 0.50 0.20", "swap 1 GiB of 8 GiB", "python -m anyrig train gpt2",
        "anyrig serve --port 3000", "our processes, by memory", "q quit",
    ):  # fmt: skip
        assert words in text, words
    assert "idle" not in text  # an idle clock is nobody's concern
    assert "Xorg" not in text
    assert any("⣿" in row for row in lines)  # there is room for graphs


def test_a_lost_device_is_said_in_words(machine: Callable[..., Machine]) -> None:
    h200 = machine("h200-linux")
    gone = DeviceSample(h200.gpus[0].id, h200.gpus[0].name, 299.0, NOW, lost="NVML: GPU is lost")
    cpu = sample(h200, 1, 299.0)
    for height in (40, 5):
        text = "\n".join(text_of(h200, View(100, height), devices=(gone, cpu)))
        assert "lost: NVML: GPU is lost" in text


def test_what_nobody_knows_is_a_dash(machine: Callable[..., Machine]) -> None:
    h200 = machine("h200-linux")
    nothing = DeviceSample(h200.gpus[0].id, "H200", 299.0, NOW, unknown={"device": "why not"})
    lines = text_of(h200, View(100, 40), devices=(nothing, sample(h200, 1, 299.0)))
    text = "\n".join(lines[:9])
    assert "why not" in text
    assert " 0 %" not in text
    assert lines[2].rstrip().endswith(" -")


def test_others_cannot_write_on_our_screen(machine: Callable[..., Machine]) -> None:
    """A process may call itself anything, escape codes included."""
    h200 = machine("h200-linux")
    snapshot, histories = moment(h200)
    evil = HostProcess(1000, "x", "a\x1b[2J", "x\x1b]0;owned\x07\r\n\u202eabc", 1.0, 1, True)
    snapshot = replace(snapshot, host=replace(snapshot.host, processes=(evil,)))
    for row in build_frame(snapshot, histories, h200, View(120, 40)):
        text = render(row, colours=False)
        assert "\x1b" not in text
        assert "\r" not in text
        assert "\u202e" not in text


# -- the command -----------------------------------------------------------------------------------


def test_without_a_terminal_one_frame_is_printed(anyrig: Anyrig) -> None:
    done = anyrig("top", stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("anyrig top  ")
    assert "CPU " in done.stdout
    assert "\x1b" not in done.stdout
    assert " %" in done.stdout  # the load is there: two looks were taken


def test_json_lines(anyrig: Anyrig) -> None:
    done = anyrig("top", "--json", "--count", "3", "--interval", "0.1")
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    assert len(rows) == 3
    assert rows[0]["time"] < rows[1]["time"] < rows[2]["time"]
    assert all(set(row) == set(rows[0]) for row in rows)


def test_prometheus_text(anyrig: Anyrig) -> None:
    done = anyrig("top", "--prometheus")
    names = {family.name for family in text_string_to_metric_families(done.stdout)}
    assert {"anyrig_device_up", "anyrig_host_cpu_ratio"} <= names


def test_a_recorded_machine_shows_what_is_fixed(
    machine: Callable[..., Machine], subtests: pytest.Subtests
) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            from anyrig.app.devices import describe_recorded

            there = machine(name)
            snapshot = describe_recorded(there)
            text = "\n".join(
                render(row, colours=False)
                for row in build_frame(snapshot, {}, there, View(120, None))
            )
            for gpu in there.gpus:
                assert gpu.name[:40] in text
            assert text.count("a recorded machine is not sampled") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--interval", "0"], "not between"),
        (["--count", "0"], "not a number of samples"),
        (["--json", "--prometheus"], "cannot be combined"),
        (["--once", "--watch"], "one sample"),
    ],
)
def test_mistakes(anyrig: Anyrig, words: list[str], message: str) -> None:
    done = anyrig("top", *words)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[0]
    assert "  hint: " in done.stderr


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
def test_a_dumb_terminal_gets_one_plain_frame() -> None:
    with opened(term="dumb", colours=True) as screen:
        screen.until(b"process")
        assert screen.exit_code() == 0
    assert b"CPU " in screen.seen
    assert b"\x1b" not in screen.seen
