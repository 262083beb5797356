"""One engine for all tests of OCR: loading it takes a second."""

from __future__ import annotations

import pytest

from anyrig.devices.discover import discover
from anyrig.documents.ocr.rapid import Rapid
from anyrig.placement import Placement


@pytest.fixture(scope="session")
def seat() -> Placement:
    """One thread of this machine's CPU through ONNX Runtime."""
    device = discover().cpu_device
    drive = next(drive for drive in device.backends if drive.backend == "onnx")
    return Placement(device, drive, threads=1)


@pytest.fixture(scope="session")
def rapid(seat: Placement) -> Rapid:
    pytest.importorskip("rapidocr")
    return Rapid(seat)
