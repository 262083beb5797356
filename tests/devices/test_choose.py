"""Selectors, the order of requests, and what happens when a requested device does not exist."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anyrig.devices.choose import (
    DeviceRequest,
    MeasuredDevices,
    choose_device,
    match_devices,
)
from anyrig.devices.doctor import diagnose
from anyrig.devices.machine import Machine
from anyrig.devices.reasons import ReasonCode
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError

Load = Callable[..., Machine]
PAIR = "rtx4090-rtxpro6000-wsl2"


SELECTORS = [
    (PAIR, "cuda", 1), (PAIR, "CUDA:1", 0), (PAIR, "cuda:0", 1), (PAIR, "0", 0), (PAIR, "1", 1),
    (PAIR, "rtx 4090", 0), (PAIR, "pro 6000", 1), (PAIR, " gpu ", 1), (PAIR, "0000:02:00.0", 1),
    ("mi300x-linux", "rocm:0", 0), ("mi300x-linux", "cuda:0", 0), ("mi300x-linux", "rocm", 0),
    ("arc-b580-linux", "xpu:0", 0), ("arc-b580-linux", "xpu", 0),
    ("macbook-m4", "mps", 0), ("rx7900xtx-windows", "dml:0", 0),
    ("rx7900xtx-windows", "directml:0", 0), ("rx640-uhd750-windows", "dml:1", 1),
    ("low-disk", "webgpu:0", 0), ("h100x8-mig", "6:1", 8), ("h100x8-mig", "7", 9),
    ("nvidia-nouveau", "cuda:0", 0),
]  # fmt: skip


def test_selectors(machine: Load, subtests: pytest.Subtests) -> None:
    for name, selector, number in SELECTORS:
        with subtests.test(name=name, selector=selector):
            here = machine(name)
            assert match_devices(here, selector)[0] is here.gpus[number]


def test_id_prefixes(machine: Load) -> None:
    here = machine(PAIR)
    for gpu in here.gpus:
        assert match_devices(here, gpu.id) == (gpu,)
        assert match_devices(here, gpu.id[:12].upper()) == (gpu,)


def test_cpu_and_all(machine: Load) -> None:
    here = machine("hidden-gpu")
    assert match_devices(here, "cpu") == (here.cpu_device,)
    assert match_devices(here, "all") == (here.gpus[1], here.cpu_device)


@pytest.mark.parametrize("selector", ["cuda:9", "9", "radeon", "GPU-ffffffff", ""])
def test_unknown_selector_lists_devices(machine: Load, selector: str) -> None:
    with pytest.raises(DeviceNotFoundError) as caught:
        match_devices(machine("h200-linux"), selector)
    assert "NVIDIA H200" in caught.value.hint
    assert "cpu" in caught.value.hint


def test_ambiguous_name_is_an_error(machine: Load) -> None:
    with pytest.raises(DeviceNotFoundError, match="matches 2 devices"):
        match_devices(machine("hidden-gpu"), "rtx 3090")


# -- the order of decision ------------------------------------------------------------------------


def test_first_request_wins(machine: Load) -> None:
    here = machine(PAIR)
    requests = [
        DeviceRequest("rtx 4090", "flag"),
        DeviceRequest("cpu", "environment"),
        DeviceRequest(here.gpus[1].id, "saved"),
    ]
    assert choose_device(here, requests).device is here.gpus[0]
    assert choose_device(here, requests[1:]).device.kind == "cpu"
    saved = choose_device(here, requests[2:])
    assert (saved.device, saved.origin) == (here.gpus[1], "saved")


def test_auto_flag_overrides_saved_device(machine: Load) -> None:
    here = machine(PAIR)
    choice = choose_device(here, [DeviceRequest("auto", "flag"), DeviceRequest("cpu", "saved")])
    assert (choice.device, choice.origin) == (here.gpus[1], "specifications")


def test_missing_saved_device_is_skipped_with_warning(machine: Load) -> None:
    here = machine(PAIR)
    choice = choose_device(here, [DeviceRequest("GPU-dead", "saved", "NVIDIA GeForce RTX 2080 Ti")])
    assert choice.device is here.gpus[1]
    assert "RTX 2080 Ti" in choice.warnings[0]


def test_measured_speed_beats_specifications(machine: Load) -> None:
    here = machine(PAIR)
    slow, fast = here.gpus
    measured = MeasuredDevices(speeds={slow.id: 80.0, fast.id: 70.0, "cpu": 1.0})
    choice = choose_device(here, measured=measured)
    assert (choice.device, choice.origin) == (slow, "measured")
    assert "80" in choice.reason.message
    assert any(p.device is fast and "measured slower" in p.reason.message for p in choice.skipped)


def test_gpu_slower_than_cpu_is_not_chosen(machine: Load) -> None:
    here = machine("core-ultra-linux")
    gpu = here.gpus[0]
    choice = choose_device(here, measured=MeasuredDevices(speeds={gpu.id: 0.2, "cpu": 0.5}))
    assert choice.device.kind == "cpu"
    assert choice.reason.code is ReasonCode.CPU_FASTEST
    assert choice.skipped[0].device is gpu
    assert "slower than the CPU: 0.2 compared to 0.5" in choice.skipped[0].reason.message
    # Requested by index, it is used all the same.
    requested = choose_device(
        here,
        [DeviceRequest("0", "flag")],
        measured=MeasuredDevices(speeds={gpu.id: 0.2, "cpu": 0.5}),
    )
    assert requested.device is gpu


def test_device_with_wrong_results_is_never_chosen(machine: Load) -> None:
    here = machine("h200-linux")
    gpu = here.gpus[0]
    measured = MeasuredDevices(
        speeds={gpu.id: 700.0}, broken={gpu.id: "wrong results: differs by 12 %"}
    )
    for requests in ([], [DeviceRequest("cuda:0", "flag")], [DeviceRequest("all", "flag")]):
        choice = choose_device(here, requests, measured=measured)
        assert gpu not in choice.devices
        assert any(passed.reason.code is ReasonCode.WRONG_RESULTS for passed in choice.skipped)


# -- what cannot be used --------------------------------------------------------------------------


def test_unusable_gpu_falls_back_to_cpu_with_warning(machine: Load) -> None:
    here = machine("gtx1080ti-linux")
    choice = choose_device(here, [DeviceRequest("cuda:0", "flag")])
    assert (choice.device.kind, choice.origin) == ("cpu", "fallback")
    assert "6.1" in choice.warnings[0]
    assert "cu126" in choice.warnings[0]


def test_unusable_gpu_is_an_error_if_strict(machine: Load) -> None:
    with pytest.raises(DeviceUnusableError) as caught:
        choose_device(machine("gtx1080ti-linux"), [DeviceRequest("cuda:0", "flag")], strict=True)
    assert "cu126" in caught.value.hint


def test_all_excludes_unusable_devices(machine: Load) -> None:
    here = machine("h100x8-mig")
    choice = choose_device(here, [DeviceRequest("all", "flag")])
    assert len(choice.devices) == 6 + 9 + 1
    assert choice.devices[-1].kind == "cpu"
    assert all(passed.reason.code is ReasonCode.MIG_PARENT for passed in choice.skipped)


def test_larger_unmeasured_gpu_beats_smaller_measured_one(machine: Load) -> None:
    here = machine(PAIR)
    small, large = here.gpus
    choice = choose_device(here, measured=MeasuredDevices(speeds={small.id: 80.0, "cpu": 1.0}))
    assert (choice.device, choice.origin) == (large, "specifications")
    assert "not measured yet" in choice.skipped[0].reason.message


@pytest.mark.parametrize("selector", ["02:00.0", "00000000:02:00.0", "d4a0f3b8-1e5c"])
def test_pci_addresses_and_uuids(machine: Load, selector: str) -> None:
    here = machine(PAIR)
    assert match_devices(here, selector) == (here.gpus[1],)


def test_selector_of_unusable_backend(machine: Load) -> None:
    here = machine("rx7900xtx-windows")
    choice = choose_device(here, [DeviceRequest("rocm:0", "flag")])
    assert choice.device is here.gpus[0]
    assert "cannot be used as rocm:0" in choice.warnings[0]
    assert "using it as dml:0" in choice.warnings[0]
    with pytest.raises(DeviceUnusableError, match="rocm:0"):
        choose_device(here, [DeviceRequest("rocm:0", "flag")], strict=True)
    assert choose_device(here, [DeviceRequest("dml:0", "flag")], strict=True).warnings == ()


# -- missing devices ---------------------------------------------------------------------------

KINDS = ("gpu", "cuda", "directml", "mps", "nvidia", " CUDA ")
ONE_DEVICE = (
    "0", "0:1", "cuda:0", "GPU-ffffffff", "0000:02:00.0", "rtx 4090", "nonsense", "cuda:x",
)  # fmt: skip
# Origins of a request, with the variable or file that contains it.
OURS = (
    ("flag", ""), ("environment", "ANYRIG_DEVICE"), ("environment", "ANYRIG_DEVICE in .env"),
    ("settings", "anyrig.toml"),
)  # fmt: skip
FOREIGN = tuple(
    ("environment", place)
    for place in ("GPU_ID", "GPU_ID in .env", "DIRECTML_DEVICE", "VIBEVOICE_DEVICE", "USE_GPU")
)


@pytest.mark.parametrize(
    ("name", "selector"),
    [
        ("rtx4090-rtxpro6000-wsl2", "4090"), ("t4-linux", "4"), ("t4-linux", "2.0"),
        ("t4-linux", "-1"), ("t4-linux", "²"), ("t4-linux", "cuda:" + "9" * 5000),
    ],
)  # fmt: skip
def test_number_does_not_match_names(machine: Load, name: str, selector: str) -> None:
    for origin in ("flag", "environment", "settings"):
        with pytest.raises(DeviceNotFoundError):
            choose_device(machine(name), [DeviceRequest(selector, origin)])


def test_vendor_does_not_match_the_cpu(machine: Load) -> None:
    here = machine("t4-linux")
    assert "Intel" in here.cpu.name
    choice = choose_device(here, [DeviceRequest("intel", "flag")])
    assert choice.warnings == ("no Intel GPU found; using the CPU",)


@pytest.mark.parametrize("selector", KINDS)
def test_missing_kind_falls_back_to_cpu_with_one_warning(machine: Load, selector: str) -> None:
    here = machine("no-gpu")
    for origin, place in (*OURS, *FOREIGN, ("saved", "")):
        request = DeviceRequest(selector, origin, place=place)  # type: ignore[arg-type]
        choice = choose_device(here, [request])
        assert (choice.devices, choice.origin) == ((here.cpu_device,), "fallback")
        assert len(choice.warnings) == 1
        assert choice.warnings[0].startswith("no ")
        assert choice.warnings[0].endswith("; using the CPU")
        assert place in choice.warnings[0]
        with pytest.raises(DeviceUnusableError) as caught:
            choose_device(here, [request], strict=True)
        assert here.cpu.name in caught.value.hint


def test_missing_device_is_an_error_unless_foreign(
    machine: Load, subtests: pytest.Subtests
) -> None:
    for selector in ONE_DEVICE:
        with subtests.test(selector=selector):
            here = machine("no-gpu")
            for origin, place in OURS:
                request = DeviceRequest(selector, origin, place=place)  # type: ignore[arg-type]
                for strict in (False, True):
                    with pytest.raises(DeviceNotFoundError) as caught:
                        choose_device(here, [request], strict=strict)
                    assert here.cpu.name in caught.value.hint
                    assert place in caught.value.message
            for origin, place in FOREIGN:
                request = DeviceRequest(selector, origin, place=place)  # type: ignore[arg-type]
                choice = choose_device(here, [request])
                assert (choice.devices, choice.origin) == ((here.cpu_device,), "fallback")
                assert len(choice.warnings) == 1
                assert f"(requested by {place}); using the CPU" in choice.warnings[0]
                with pytest.raises(DeviceNotFoundError):
                    choose_device(here, [request], strict=True)


def test_missing_device_of_a_foreign_variable_is_ignored(machine: Load) -> None:
    """As docs/devices.md says: the next request, or an automatic choice, decides."""
    here = machine("rtx4090-rtxpro6000-wsl2")
    automatic = choose_device(here)
    for place in ("GPU_ID", "DIRECTML_DEVICE", "VIBEVOICE_DEVICE"):
        foreign = DeviceRequest("7", "environment", place=place)
        choice = choose_device(here, [foreign])
        assert (choice.devices, choice.origin) == (automatic.devices, automatic.origin)
        assert choice.device.kind == "gpu"
        assert choice.warnings == (
            f"no device matches '7' (requested by {place}); using {choice.device.name}",
        )
        saved = choose_device(here, [foreign, DeviceRequest("0", "saved")])
        assert (saved.device, saved.origin) == (here.gpus[0], "saved")
        assert len(saved.warnings) == 1
        with pytest.raises(DeviceNotFoundError):
            choose_device(here, [foreign], strict=True)
    kind = choose_device(here, [DeviceRequest("mps", "environment", place="VIBEVOICE_DEVICE")])
    assert kind.device.kind == "cpu"


@pytest.mark.parametrize(
    ("name", "selector"),
    [("h200-linux", "xpu"), ("h200-linux", "amd"), ("macbook-m4", "cuda")],
)
def test_kind_is_not_replaced_by_another_gpu(machine: Load, name: str, selector: str) -> None:
    here = machine(name)
    choice = choose_device(here, [DeviceRequest(selector, "flag")])
    assert choice.device.kind == "cpu"
    assert len(choice.warnings) == 1
    with pytest.raises(DeviceUnusableError):
        choose_device(here, [DeviceRequest(selector, "flag")], strict=True)


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
def test_unmatched_visibility_entry_is_one_warning(
    machine: Load, name: str, variable: str, value: str, entry: str
) -> None:
    here = machine(name, {variable: value})
    choice = choose_device(here)
    assert choice.warnings == (f"{variable} lists {entry}, which does not exist",)
    if value != "0,7":
        assert choice.device.kind == "cpu"
    found = [f for f in diagnose(here) if f.check == "visibility" and f.state == "warning"]
    assert any(f"{variable} lists {entry}" in finding.message for finding in found)
    with pytest.raises(DeviceNotFoundError, match=variable):
        choose_device(here, strict=True)
    # Who names a device does not ask the variable.
    assert choose_device(here, [DeviceRequest("cpu", "flag")]).warnings == ()


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles", "0"])
def test_hiding_all_devices_is_no_warning(machine: Load, value: str) -> None:
    assert (
        choose_device(machine("h200-linux", {"CUDA_VISIBLE_DEVICES": value}), strict=True).warnings
        == ()
    )


def test_a_command_that_ends_in_dots_is_a_fix(machine: Load) -> None:
    """`docker run --device /dev/kfd ...` is a command, not a sentence."""
    choice = choose_device(machine("mi210-docker-no-kfd"), [DeviceRequest("amd", "flag")])
    assert "To fix: docker run --device /dev/kfd" in choice.warnings[0]
