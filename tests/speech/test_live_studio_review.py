"""A line that many want: it keeps its place, and is forgotten here whatever the store does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement, PlacementPlan
from anyrig.speech.engines.tone import Tone
from anyrig.speech.live import LiveStudio
from anyrig.speech.protocol import Line
from anyrig.speech.script import Segment
from anyrig.speech.stage import Stage

DRIVE = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")


def segment(text: str) -> Segment:
    return Segment(Line(text), ((0, len(text)),), text)


@contextmanager
def studio(**options: Any) -> Iterator[LiveStudio]:
    seat = Placement(Device("cpu", "cpu", "test", "CPU"), DRIVE)
    stage = Stage(
        engine="tone", found=Tone.find(), placed=PlacementPlan((seat,)), environment=os.environ,
        options=options,
    )  # fmt: skip
    with LiveStudio(stage) as made:
        yield made


def test_a_line_that_is_asked_for_again_keeps_its_place() -> None:
    """Each who asks would wait for longer than the one before; the line came last, every time."""
    order: list[str] = []
    with studio(sleep_s=0.01) as made:
        running = [made.ask(0, segment(f"at work, number {n}"), "live", 60) for n in range(8)]
        time.sleep(0.1)
        popular = made.ask(0, segment("popular"), "live", 60)
        others = [made.ask(0, segment(f"other {n}"), "live", 60) for n in range(8)]
        again = [made.ask(0, segment("popular"), "live", 60 + n) for n in range(8)]
        for asked in (popular, *others):
            assert asked.future is not None
            asked.future.add_done_callback(lambda _, name=asked.name: order.append(name))  # type: ignore[misc]
        for asked in (*running, popular, *others, *again):
            assert asked.future is not None
            asked.future.result(timeout=60)
    assert order.index(popular.name) < order.index(others[-1].name)


def test_one_who_waits_for_longer_moves_the_deadline() -> None:
    with studio(sleep_s=0.01) as made:
        for number in range(8):
            made.ask(0, segment(f"at work, number {number}"), "live", None)
        time.sleep(0.1)
        made.ask(0, segment("wanted"), "live", 5)
        (making,) = [one for one in made._making.values() if one.line.text == "wanted"]
        first = making.future
        assert first.deadline is not None
        before = first.deadline
        made.ask(0, segment("wanted"), "live", 1)
        assert first.deadline == before
        made.ask(0, segment("wanted"), "live", 50)
        assert first.deadline > before + 40
        made.ask(0, segment("wanted"), "live", None)
        assert first.deadline is None
        assert making.future is first


def test_a_take_that_cannot_be_kept_is_not_held_here_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with studio() as made:
        called = threading.Event()

        def broken(*_: object, **__: object) -> None:
            called.set()
            raise ValueError("no such thing")

        monkeypatch.setattr(made._stage.shelf, "keep", broken)
        assert [one.take is not None for one in made.read([segment("one")])] == [True]
        assert called.wait(10)
        for _ in range(500):
            if not made._making:
                return
            time.sleep(0.01)
        raise AssertionError("it is still held")
