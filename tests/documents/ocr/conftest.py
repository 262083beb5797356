"""One engine for all tests of OCR: loading it takes a second."""

from __future__ import annotations

import pytest

from anyrig.devices.discovery import discover
from anyrig.documents.ocr.rapid import Rapid
from anyrig.placement import Placement


@pytest.fixture(scope="session")
def seat() -> Placement:
    """One thread of this machine's CPU through ONNX Runtime."""
    device = discover().cpu_device
    backend = next(backend for backend in device.backends if backend.library == "onnx")
    return Placement(device, backend, threads=1)


@pytest.fixture(scope="session")
def rapid(seat: Placement) -> Rapid:
    pytest.importorskip("rapidocr")
    return Rapid(seat)
