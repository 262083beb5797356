"""One rule for a device that is not there, whoever asks for it, and what a number means."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from anyrig.devices.choose import DeviceRequest, choose_device, match_devices
from anyrig.devices.doctor import diagnose
from anyrig.devices.machine import Machine
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError
from tests.conftest import NAMES

Load = Callable[..., Machine]
KINDS = (
    "gpu", "cuda", "rocm", "hip", "directml", "dml", "xpu", "mps", "metal", "webgpu", "tensorrt",
    "nvidia", "amd", "intel", "apple", " CUDA ",
)  # fmt: skip
PARTICULAR = (
    "0", "3", "97", "0:1", "cuda:0", "rocm:1", "dml:0", "directml:2", "xpu:0", "webgpu:0", "mps:0",
    "GPU-ffffffff", "0000:02:00.0", "radeon", "rtx 4090", "nonsense", "cuda:", "cuda:x",
)  # fmt: skip
# Who says the word: origin, and the variable or file that holds it.
OURS = (
    ("flag", ""), ("environment", "ANYRIG_DEVICE"), ("environment", "ANYRIG_DEVICE in .env"),
    ("settings", "anyrig.toml"),
)  # fmt: skip
FOREIGN = tuple(
    ("environment", place)
    for place in ("GPU_ID", "GPU_ID in .env", "DIRECTML_DEVICE", "VIBEVOICE_DEVICE", "USE_GPU")
)


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_bare_number_is_an_index_only(machine: Load, name: str) -> None:
    here = machine(name)
    indices = {gpu.indices["gpu"] for gpu in here.gpus if gpu.part != "mig"}
    written = {int(word) for d in here.devices for word in re.findall(r"\d{1,9}", d.name)}
    for number in {*range(12), *written}:
        if number in indices:
            assert match_devices(here, str(number))[0].indices["gpu"] == number
        else:
            with pytest.raises(DeviceNotFoundError) as caught:
                match_devices(here, str(number))
            assert here.cpu.name in caught.value.hint


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("rtx4090-rtxpro6000-wsl2", "9"), ("rtx4090-rtxpro6000-wsl2", "4090"),
        ("rx640-uhd750-windows", "7"), ("rx640-uhd750-windows", "750"), ("t4-linux", "4"),
        ("t4-linux", "2.0"), ("t4-linux", "2.00"), ("t4-linux", "-1"), ("t4-linux", "+4"),
        ("t4-linux", "9" * 5000), ("t4-linux", "cuda:" + "9" * 5000),
    ],
)  # fmt: skip
def test_numbers_in_names_are_not_matched(machine: Load, name: str, word: str) -> None:
    for origin in ("flag", "environment", "settings"):
        with pytest.raises(DeviceNotFoundError):
            choose_device(machine(name), [DeviceRequest(word, origin)])


def test_a_number_out_of_a_name_is_told_its_index(machine: Load) -> None:
    with pytest.raises(DeviceNotFoundError) as caught:
        match_devices(machine("rtx4090-rtxpro6000-wsl2"), "4090")
    assert "A number is an index: NVIDIA GeForce RTX 4090 is '0'." in caught.value.hint


def test_index_0_without_a_gpu_is_an_error(machine: Load) -> None:
    for strict in (False, True):
        with pytest.raises(DeviceNotFoundError):
            choose_device(machine("no-gpu"), [DeviceRequest("0", "flag")], strict=strict)


def test_a_vendor_is_not_the_maker_of_the_cpu(machine: Load) -> None:
    here = machine("t4-linux")
    assert "Intel" in here.cpu.name
    choice = choose_device(here, [DeviceRequest("intel", "flag")])
    assert choice.warnings == ("no Intel GPU found; using the CPU",)


def test_there_is_one_metal_device(machine: Load) -> None:
    here = machine("macbook-m4")
    assert match_devices(here, "mps:0") == match_devices(here, "mps") == here.gpus
    with pytest.raises(DeviceNotFoundError):
        match_devices(here, "mps:1")


# -- what is absent --------------------------------------------------------------------------------


@pytest.mark.parametrize("word", KINDS)
def test_a_kind_that_is_not_there_is_the_cpu_with_one_warning(machine: Load, word: str) -> None:
    here = machine("no-gpu")
    for origin, place in (*OURS, *FOREIGN, ("saved", "")):
        wish = DeviceRequest(word, origin, place=place)  # type: ignore[arg-type]
        choice = choose_device(here, [wish])
        assert (choice.devices, choice.origin) == ((here.cpu_device,), "fallback")
        assert len(choice.warnings) == 1
        assert choice.warnings[0].startswith("no ")
        assert choice.warnings[0].endswith("; using the CPU")
        assert place in choice.warnings[0]
        with pytest.raises(DeviceUnusableError) as caught:
            choose_device(here, [wish], strict=True)
        assert here.cpu.name in caught.value.hint


@pytest.mark.parametrize("word", PARTICULAR)
def test_one_device_that_is_not_there(machine: Load, word: str) -> None:
    here = machine("no-gpu")
    for origin, place in OURS:
        for strict in (False, True):
            with pytest.raises(DeviceNotFoundError) as caught:
                choose_device(here, [DeviceRequest(word, origin, place=place)], strict=strict)  # type: ignore[arg-type]
            assert here.cpu.name in caught.value.hint
            assert place in caught.value.message
    for origin, place in FOREIGN:
        wish = DeviceRequest(word, origin, place=place)  # type: ignore[arg-type]
        choice = choose_device(here, [wish])
        assert (choice.devices, choice.origin) == ((here.cpu_device,), "fallback")
        assert len(choice.warnings) == 1
        assert f"(requested by {place}); using the CPU" in choice.warnings[0]
        with pytest.raises(DeviceNotFoundError):
            choose_device(here, [wish], strict=True)


@pytest.mark.parametrize(
    ("name", "word"),
    [("h200-linux", "xpu"), ("h200-linux", "mps"), ("h200-linux", "directml"),
     ("h200-linux", "amd"), ("macbook-m4", "cuda"), ("arc-b580-linux", "rocm"),
     ("mi300x-linux", "nvidia"), ("rx7900xtx-windows", "xpu")],
)  # fmt: skip
def test_another_gpu_does_not_stand_in_for_a_kind(machine: Load, name: str, word: str) -> None:
    here = machine(name)
    choice = choose_device(here, [DeviceRequest(word, "flag")])
    assert choice.device.kind == "cpu"
    assert len(choice.warnings) == 1
    with pytest.raises(DeviceUnusableError):
        choose_device(here, [DeviceRequest(word, "flag")], strict=True)


def test_a_saved_device_that_is_gone_fails_when_strict(machine: Load) -> None:
    wish = DeviceRequest("GPU-dead", "saved", "NVIDIA GeForce RTX 2080 Ti")
    with pytest.raises(DeviceNotFoundError, match="RTX 2080 Ti no longer exists"):
        choose_device(machine("h200-linux"), [wish], strict=True)


# -- variables that hide devices -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variable", "value", "entry"),
    [
        ("no-gpu", "CUDA_VISIBLE_DEVICES", "0", "0"),
        ("h200-linux", "CUDA_VISIBLE_DEVICES", "7", "7"),
        ("h200-linux", "CUDA_VISIBLE_DEVICES", "0,7", "7"),
        ("h200-linux", "CUDA_VISIBLE_DEVICES", "GPU-00000000-dead", "GPU-00000000-dead"),
        ("mi300x-linux", "HIP_VISIBLE_DEVICES", "64", "64"),
        ("mi300x-linux", "CUDA_VISIBLE_DEVICES", "64", "64"),
        ("arc-b580-linux", "ZE_AFFINITY_MASK", "3.1", "3.1"),
    ],
)
def test_a_variable_that_names_an_absent_device_is_one_warning(
    machine: Load, name: str, variable: str, value: str, entry: str
) -> None:
    here = machine(name, {variable: value})
    choice = choose_device(here)
    assert choice.warnings == (f"{variable} lists {entry}, which does not exist: ignored",)
    if value != "0,7":
        assert choice.device.kind == "cpu"
    found = [f for f in diagnose(here) if f.check == "visibility" and f.state == "warning"]
    assert any(f"{variable} lists {entry}" in finding.message for finding in found)
    with pytest.raises(DeviceNotFoundError, match=variable):
        choose_device(here, strict=True)
    for word in ("cpu", here.devices[0].id):  # who names a device does not ask the variable
        assert not any(
            "not there" in w for w in choose_device(here, [DeviceRequest(word, "flag")]).warnings
        )


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles", "none", "0", "GPU-"])
def test_a_variable_that_hides_on_purpose_is_silent(machine: Load, value: str) -> None:
    assert (
        choose_device(machine("h200-linux", {"CUDA_VISIBLE_DEVICES": value}), strict=True).warnings
        == ()
    )


def test_a_card_whose_driver_is_silent_is_not_called_absent(machine: Load) -> None:
    for value in ("0", "GPU-12345678"):
        here = machine("nvidia-nouveau", {"CUDA_VISIBLE_DEVICES": value})
        assert choose_device(here).warnings == ()
