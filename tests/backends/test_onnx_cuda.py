"""ONNX Runtime on CUDA: what it is told, and where it finds CUDA. An H200 ran it by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from anyrig.backends import onnx
from anyrig.devices.machine import Device, Machine


@pytest.fixture
def gpu(machine: Callable[..., Machine]) -> Device:
    return replace(machine("h200-linux").gpus[0], indices={"cuda": 3})


def test_new_lengths_are_not_searched_for_algorithms(gpu: Device) -> None:
    """By default they are: the default voice was five times slower for it."""
    told = onnx.options(gpu, "CUDAExecutionProvider")
    assert told == {"device_id": "3", "cudnn_conv_algo_search": "HEURISTIC"}
    assert onnx.options(gpu, "TensorrtExecutionProvider") == {"device_id": "3"}


def test_the_libraries_in_wheels_are_loaded_once_and_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def preload() -> None:
        calls.append(1)
        print("Failed to load libcudnn.so.9")

    monkeypatch.setattr("onnxruntime.preload_dlls", preload, raising=False)
    onnx._find_cuda.cache_clear()
    try:
        onnx._find_cuda()
        onnx._find_cuda()
    finally:
        onnx._find_cuda.cache_clear()
    assert calls == [1]
    assert capsys.readouterr().out == ""
