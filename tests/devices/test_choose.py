from __future__ import annotations

from collections.abc import Callable

import pytest

from anyrig.devices.choose import (
    DeviceRequest,
    Evidence,
    choose_device,
    match_devices,
    select_backend,
)
from anyrig.devices.machine import BlockCode, Machine
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError

Load = Callable[..., Machine]
PAIR = "rtx4090-rtxpro6000-wsl2"


@pytest.mark.parametrize(
    ("name", "word", "number"),
    [
        (PAIR, "cuda", 1), (PAIR, "CUDA:1", 0), (PAIR, "cuda:0", 1), (PAIR, "0", 0), (PAIR, "1", 1),
        (PAIR, "rtx 4090", 0), (PAIR, "pro 6000", 1), (PAIR, " gpu ", 1), (PAIR, "0000:02:00.0", 1),
        ("mi300x-linux", "rocm:0", 0), ("mi300x-linux", "cuda:0", 0), ("mi300x-linux", "rocm", 0),
        ("arc-b580-linux", "xpu:0", 0), ("arc-b580-linux", "xpu", 0),
        ("macbook-m4", "mps", 0), ("rx7900xtx-windows", "dml:0", 0),
        ("rx7900xtx-windows", "directml:0", 0), ("rx640-uhd750-windows", "dml:1", 1),
        ("low-disk", "webgpu:0", 0), ("h100x8-mig", "6:1", 8), ("h100x8-mig", "7", 9),
        ("nvidia-nouveau", "cuda:0", 0),
    ],
)  # fmt: skip
def test_words(machine: Load, name: str, word: str, number: int) -> None:
    here = machine(name)
    assert match_devices(here, word)[0] is here.gpus[number]


def test_ids_and_their_beginnings(machine: Load) -> None:
    here = machine(PAIR)
    for gpu in here.gpus:
        assert match_devices(here, gpu.id) == (gpu,)
        assert match_devices(here, gpu.id[:12].upper()) == (gpu,)


def test_cpu_and_all(machine: Load) -> None:
    here = machine("hidden-gpu")
    assert match_devices(here, "cpu") == (here.cpu_device,)
    assert match_devices(here, "all") == (here.gpus[1], here.cpu_device)


@pytest.mark.parametrize(
    "word", ["cuda:9", "9", "xpu", "radeon", "GPU-ffffffff", "mps", "", "cuda:x"]
)
def test_a_word_that_matches_nothing_lists_what_is_there(machine: Load, word: str) -> None:
    with pytest.raises(DeviceNotFoundError) as caught:
        match_devices(machine("h200-linux"), word)
    assert "NVIDIA H200" in caught.value.hint
    assert "cpu" in caught.value.hint


def test_a_near_miss_is_named(machine: Load) -> None:
    with pytest.raises(DeviceNotFoundError) as caught:
        match_devices(machine("h200-linux"), "cuda;0")
    assert "Did you mean 'cuda:0'?" in caught.value.hint


def test_a_name_that_matches_several_is_refused(machine: Load) -> None:
    with pytest.raises(DeviceNotFoundError, match="matches 2 devices"):
        match_devices(machine("hidden-gpu"), "rtx 3090")


# -- the order of decision ------------------------------------------------------------------------


def test_the_strongest_wish_wins(machine: Load) -> None:
    here = machine(PAIR)
    wishes = [
        DeviceRequest("rtx 4090", "flag"),
        DeviceRequest("cpu", "environment"),
        DeviceRequest(here.gpus[1].id, "saved"),
    ]
    assert choose_device(here, wishes).device is here.gpus[0]
    assert choose_device(here, wishes[1:]).device.kind == "cpu"
    saved = choose_device(here, wishes[2:])
    assert (saved.device, saved.origin) == (here.gpus[1], "saved")


def test_auto_on_the_flag_passes_the_saved_choice_over(machine: Load) -> None:
    here = machine(PAIR)
    choice = choose_device(here, [DeviceRequest("auto", "flag"), DeviceRequest("cpu", "saved")])
    assert (choice.device, choice.origin) == (here.gpus[1], "described")


def test_a_saved_device_that_is_gone_is_named_and_passed(machine: Load) -> None:
    here = machine(PAIR)
    choice = choose_device(here, [DeviceRequest("GPU-dead", "saved", "NVIDIA GeForce RTX 2080 Ti")])
    assert choice.device is here.gpus[1]
    assert "RTX 2080 Ti" in choice.warnings[0]


def test_a_flag_for_a_device_that_is_not_there_is_an_error(machine: Load) -> None:
    with pytest.raises(DeviceNotFoundError):
        choose_device(machine("no-gpu"), [DeviceRequest("cuda:0", "flag")])


def test_measured_comes_before_described(machine: Load) -> None:
    here = machine(PAIR)
    slow, fast = here.gpus
    evidence = Evidence(speeds={slow.id: 80.0, fast.id: 70.0, "cpu": 1.0})
    choice = choose_device(here, evidence=evidence)
    assert (choice.device, choice.origin) == (slow, "measured")
    assert "80" in choice.reason
    assert any(p.device is fast and "measured slower" in p.reason.message for p in choice.skipped)


def test_a_gpu_measured_slower_than_the_cpu_is_not_chosen_and_the_reason_says_so(
    machine: Load,
) -> None:
    here = machine("core-ultra-linux")
    gpu = here.gpus[0]
    choice = choose_device(here, evidence=Evidence(speeds={gpu.id: 0.2, "cpu": 0.5}))
    assert choice.device.kind == "cpu"
    assert "CPU is the fastest measured" in choice.reason
    assert choice.skipped[0].device is gpu
    assert "slower than the CPU: 0.2 compared to 0.5" in choice.skipped[0].reason.message
    # Asked for by name, it is used all the same.
    asked = choose_device(
        here, [DeviceRequest("0", "flag")], evidence=Evidence(speeds={gpu.id: 0.2, "cpu": 0.5})
    )
    assert asked.device is gpu


def test_a_device_that_answers_wrongly_is_never_chosen(machine: Load) -> None:
    here = machine("h200-linux")
    gpu = here.gpus[0]
    evidence = Evidence(speeds={gpu.id: 700.0}, broken={gpu.id: "wrong results: differs by 12 %"})
    for wishes in ([], [DeviceRequest("cuda:0", "flag")], [DeviceRequest("all", "flag")]):
        choice = choose_device(here, wishes, evidence=evidence)
        assert gpu not in choice.devices
        assert any(passed.reason.code is BlockCode.WRONG_RESULTS for passed in choice.skipped)


# -- what cannot be used --------------------------------------------------------------------------


def test_a_gpu_nothing_can_drive_gives_a_warning_and_the_cpu(machine: Load) -> None:
    here = machine("gtx1080ti-linux")
    choice = choose_device(here, [DeviceRequest("cuda:0", "flag")])
    assert (choice.device.kind, choice.origin) == ("cpu", "fallback")
    assert "6.1" in choice.warnings[0]
    assert "cu126" in choice.warnings[0]


def test_strict_makes_it_an_error(machine: Load) -> None:
    with pytest.raises(DeviceUnusableError) as caught:
        choose_device(machine("gtx1080ti-linux"), [DeviceRequest("cuda:0", "flag")], strict=True)
    assert "cu126" in caught.value.hint


def test_no_gpu_is_the_cpu_with_a_reason(machine: Load) -> None:
    choice = choose_device(machine("no-gpu"))
    assert (choice.device.kind, choice.reason) == ("cpu", "no GPU found")
    assert (
        choose_device(machine("no-gpu"), [DeviceRequest("gpu", "environment")]).device.kind == "cpu"
    )


def test_all_leaves_out_what_is_broken_or_unusable(machine: Load) -> None:
    here = machine("h100x8-mig")
    choice = choose_device(here, [DeviceRequest("all", "flag")])
    assert len(choice.devices) == 6 + 9 + 1
    assert choice.devices[-1].kind == "cpu"
    assert all(passed.reason.code is BlockCode.MIG_PARENT for passed in choice.skipped)


def test_described_order(machine: Load) -> None:
    """A card before what shares memory; the larger of two."""
    assert "RX 640" in match_devices(machine("rx640-uhd750-windows"), "gpu")[0].name
    assert "PRO 6000" in match_devices(machine(PAIR), "gpu")[0].name
    assert "4070" in match_devices(machine("rtx4070-laptop-docker"), "gpu")[0].name


def test_an_unmeasured_card_is_not_skipped_for_a_measured_smaller_one(machine: Load) -> None:
    here = machine(PAIR)
    small, large = here.gpus
    choice = choose_device(here, evidence=Evidence(speeds={small.id: 80.0, "cpu": 1.0}))
    assert (choice.device, choice.origin) == (large, "described")
    assert "not measured yet" in choice.skipped[0].reason.message


def test_names_are_sought_among_gpus_first(machine: Load) -> None:
    here = machine("macbook-m4")
    for word in ("m4", "apple", "Apple M4"):
        assert match_devices(here, word) == (here.gpus[0],)
    assert match_devices(machine("strix-halo-linux"), "radeon")[0].kind == "gpu"
    assert match_devices(machine("rx640-uhd750-windows"), "intel")[0].vendor == "intel"
    assert match_devices(here, "cpu")[0].kind == "cpu"


@pytest.mark.parametrize("word", ["02:00.0", "00000000:02:00.0", "d4a0f3b8-1e5c"])
def test_addresses_and_uuids_as_other_tools_print_them(machine: Load, word: str) -> None:
    here = machine(PAIR)
    assert match_devices(here, word) == (here.gpus[1],)


@pytest.mark.parametrize("word", ["²", "cuda:²", "1:²", "dml:7", "cuda:2"])
def test_odd_words_match_nothing(machine: Load, word: str) -> None:
    with pytest.raises(DeviceNotFoundError):
        match_devices(machine(PAIR), word)


def test_a_word_with_a_backend_demands_that_backend(machine: Load) -> None:
    here = machine("rx7900xtx-windows")
    choice = choose_device(here, [DeviceRequest("rocm:0", "flag")])
    assert choice.device is here.gpus[0]
    assert "cannot be used as rocm:0" in choice.warnings[0]
    assert "using it as dml:0" in choice.warnings[0]
    with pytest.raises(DeviceUnusableError, match="rocm:0"):
        choose_device(here, [DeviceRequest("rocm:0", "flag")], strict=True)
    assert choose_device(here, [DeviceRequest("dml:0", "flag")], strict=True).warnings == ()


def test_the_way_to_a_device_follows_the_word(machine: Load) -> None:
    gpu = machine("low-disk").gpus[0]
    torch, webgpu = select_backend(gpu), select_backend(gpu, "webgpu:0")
    assert torch is not None
    assert webgpu is not None
    assert (torch.backend, webgpu.provider) == ("torch", "WebGpuExecutionProvider")
    assert select_backend(machine("gtx1080ti-linux").gpus[0]) is None


def test_cuda_names_mig_instances_where_nothing_else_is_left(machine: Load) -> None:
    from anyrig.devices.discover import from_record
    from tests.conftest import record_of

    record = record_of("h100x8-mig")
    record["nvml"]["devices"] = record["nvml"]["devices"][6:]
    here = from_record(record)
    instances = [gpu for gpu in here.gpus if gpu.part == "mig"]
    assert match_devices(here, "cuda")[0].part == "mig"
    assert match_devices(here, "cuda:1") == (instances[1],)
    assert (
        choose_device(here, [DeviceRequest("cuda:0", "flag")], strict=True).device == instances[0]
    )
