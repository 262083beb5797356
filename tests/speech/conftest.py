"""A CPU to load engines on."""

from __future__ import annotations

import pytest

from anyrig.devices.discover import discover
from anyrig.placement import Placement


@pytest.fixture
def on_cpu() -> Placement:
    """One thread of this machine's CPU through ONNX Runtime."""
    device = discover().cpu_device
    backend = next(backend for backend in device.backends if backend.library == "onnx")
    return Placement(device, backend, threads=1)
