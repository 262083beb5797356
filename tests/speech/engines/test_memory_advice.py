"""What an engine advises when memory runs out: options that it has, and that are not in use yet."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from anyrig.cli.flags import add_flags
from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.errors import Message, OptionRef, OutOfMemoryError, render
from anyrig.memory.oom import detect_oom
from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.engine import list_memory_options, resolve_options
from anyrig.work.retry import translate_error

GPU = Device("gpu", "gpu", "nvidia", "a GPU")
CPU = Device("cpu", "cpu", "any", "a CPU")


def advice(
    name: str, precision: Precision = "fp32", device: Device = GPU, library: Any = "torch",
    **given: Any,
) -> tuple[str, ...]:  # fmt: skip
    found = engines.engine_class(name)
    placement = Placement(device, DeviceBackend(library, "x", "x"), precision)
    options = resolve_options(found.info, given)
    listed = list_memory_options(found, placement, options)
    return tuple(render(Message("{option}", option=one), "command") for one in listed)


def test_indextts_names_its_own_options() -> None:
    own = (
        "--set num_beams=1", "--set max_mel_tokens=750", "--set max_text_tokens_per_sentence=60",
    )  # fmt: skip
    assert advice("indextts") == (*own, "--precision fp16", "--device cpu")
    assert advice("indextts", "fp16") == (*own, "--device cpu")
    assert advice("indextts", device=CPU) == own
    assert advice("indextts", num_beams=1, max_mel_tokens=400)[0] == own[2]


def test_xtts_has_no_fp16() -> None:
    assert advice("xtts") == ("--device cpu",)
    assert advice("xtts", device=CPU) == ()


def test_precision_that_is_in_use_is_not_advised() -> None:
    assert advice("vibevoice", "bf16") == ("--set most_s=60", "--device cpu")
    assert advice("vibevoice", "fp32") == (
        "--set most_s=60", "--precision bf16", "--device cpu",
    )  # fmt: skip
    assert advice("kokoro", "fp32", library="onnx") == ("--device cpu",)  # its file is fp32


@pytest.mark.parametrize("name", engines.OWN)
def test_every_advice_can_be_followed(name: str) -> None:
    from anyrig.app.speech import SpeechRequest

    parser = argparse.ArgumentParser()
    add_flags(parser, SpeechRequest)
    info = engines.engine_class(name).info
    for option in advice(name):
        given = parser.parse_args(["Hello.", *option.split()])
        if "set" in vars(given):
            resolve_options(info, dict(given.set))  # raises for an unknown name or value
        if "precision" in vars(given):
            assert given.precision in info.precisions


def test_advice_replaces_a_general_hint() -> None:
    error = OutOfMemoryError("the device ran out of memory", hint="Use shorter lines.")
    own = [OptionRef("set", "num_beams=1"), OptionRef("memory_gb", "6"), OptionRef("device", "cpu")]
    found = translate_error(error, detect_oom(error), "speaking", own)
    assert render(found.hint, "command") == (
        "Try --set num_beams=1, --memory-gb 6 or --device cpu."
    )
    assert translate_error(error, detect_oom(error), "speaking").hint == "Use shorter lines."


def test_an_engine_is_made_with_its_advice() -> None:
    placement = Placement(CPU, DeviceBackend("onnx", "cpu", "CPUExecutionProvider"))
    made = engines.load_engine(placement, engine="tone")
    assert made.memory_options == ()
