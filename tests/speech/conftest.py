"""A CPU to load engines on, and the tone engine in workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement, PlacementPlan
from anyrig.speech.engines.tone import Tone
from anyrig.speech.synthesis import Synthesizer
from anyrig.storage.cache import ResultCache


def place_on_cpu(library: str = "onnx") -> Placement:
    """One thread of this machine's CPU."""
    device = discover().cpu_device
    backend = next(backend for backend in device.backends if backend.library == library)
    return Placement(device, backend, threads=1)


@pytest.fixture
def on_cpu() -> Placement:
    return place_on_cpu()


def open_tone(
    cache: ResultCache | None = None,
    *names: str,
    workers: int = 1,
    shared: bool = False,
    **options: Any,
) -> Synthesizer:
    """The tone engine on one fake device, or on those that are named."""
    backend = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
    placements = [
        Placement(Device(name, "cpu", "test", name), backend, workers=workers)
        for name in names or ("cpu",)
    ]
    return Synthesizer(
        engine="tone", weights=Tone.find_weights(), plan=PlacementPlan(tuple(placements)),
        environment=os.environ, options=options, cache=cache, shared=shared,
    )  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "results.sqlite", limit_bytes=1 << 30) as opened:
        yield opened
