"""A GPU whose memory is limited, for tests that fill it: `pytest -m gpu`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from anyrig.devices.discovery import discover
from anyrig.units import GIB

if TYPE_CHECKING:
    from anyrig.backends.torch import TorchHandle

GPU_LIMIT = 4 * GIB


@pytest.fixture
def limited_gpu() -> Iterator[TorchHandle]:
    """A GPU through torch, limited to `GPU_LIMIT` while a test runs."""
    from anyrig.backends.torch import TorchHandle

    gpu, backend = next(
        (gpu, backend)
        for gpu in discover(os.environ).gpus
        for backend in gpu.backends
        if backend.usable and backend.library == "torch"
    )
    handle = TorchHandle(gpu, backend)
    total = handle.memory().total_bytes
    assert total is not None
    handle.release()
    try:
        assert handle.limit(GPU_LIMIT)
        yield handle
    finally:
        handle.limit(total)
        handle.release()
