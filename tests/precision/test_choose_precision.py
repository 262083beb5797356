from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.devices.machine import Device, DeviceBackend, Features, Machine, Precision
from anyrig.errors import InvalidSettingError
from anyrig.placement import PlacementOptions, memory_budget
from anyrig.precision.choose import (
    DEFAULT_PRECISIONS,
    PRECISIONS,
    PROFILE_COLUMNS,
    PrecisionChoice,
    choose_precision,
    profile_table,
    resolve_precision,
)
from anyrig.precision.profiles import PROFILES, ProfileName
from tests.conftest import NAMES

Load = Callable[..., Machine]
ALL: tuple[Precision, ...] = (*DEFAULT_PRECISIONS, "fp8")
H200: dict[Precision, float] = {
    "fp32": 51e12, "tf32": 404e12, "fp16": 737e12, "bf16": 785e12, "fp8": 1417e12,
}  # fmt: skip


def find_backend(device: Device, library: str, provider: str = "") -> DeviceBackend:
    return next(d for d in device.backends if d.library == library and provider in ("", d.provider))


def on(
    machine: Machine, backend: str = "torch", provider: str = ""
) -> tuple[Device, DeviceBackend]:
    device = machine.gpus[0] if machine.gpus else machine.cpu_device
    return device, find_backend(device, backend, provider)


# -- by description -------------------------------------------------------------------------------


CHOICES = [
    ("h200-linux", False, "bf16", "native here (not measured)"),
    ("h200-linux", True, "bf16", "native"),
    ("t4-linux", False, "fp16", "matrix units"),
    ("t4-linux", True, "fp16", "the loss is scaled"),
    ("v100-linux", False, "fp16", "matrix units"),
    ("gtx1080ti-linux", False, "fp32", "fp16 is no faster than fp32"),
    ("gtx1080ti-linux", True, "fp32", "emulated"),
    ("mi300x-linux", True, "bf16", "native"),
    ("rx6700xt-override-linux", False, "fp16", "twice"),
    ("arc-b580-linux", True, "bf16", "native"),
    ("macbook-m4", False, "fp32", "no faster"),
    ("macbook-m4", True, "fp32", "Metal"),
    ("no-gpu", False, "fp32", "emulated"),
    ("cpu64-cgroup4", False, "bf16", "native"),
    ("nvidia-init-fails", False, "fp32", "unknown"),
]  # fmt: skip


def test_choice_by_description(machine: Load, subtests: pytest.Subtests) -> None:
    for name, training, wanted, words in CHOICES:
        with subtests.test(name=name, training=training):
            chosen = choose_precision(*on(machine(name)), training=training)
            assert chosen.precision == wanted
            assert words in chosen.reason
            assert not chosen.warnings


def test_turing_without_tensor_cores_never_uses_fp16(machine: Load) -> None:
    """GTX 16xx are fast in fp16 and return NaN; no measurement overrides that."""
    device, way = on(machine("t4-linux"))
    small = replace(device, name="GTX 1660", features=replace(device.features, fp16="fast"))
    chosen = choose_precision(small, way, speeds={"fp32": 5e12, "fp16": 10e12})
    assert chosen.precision == "fp32"
    assert "NaN" in chosen.reason


def test_onnx_runs_in_the_format_of_its_file(machine: Load) -> None:
    device, way = on(machine("rtx4070-laptop-docker"), "onnx", "CUDAExecutionProvider")
    assert choose_precision(device, way, ("fp32",)).precision == "fp32"
    assert choose_precision(device, way, ("fp32", "fp16")).precision == "fp16"
    stays = choose_precision(device, way, ("fp32",), requested="fp16")
    assert stays.precision == "fp32"
    assert "no fp16 file" in stays.warnings[0]
    cpu = machine("rtx4070-laptop-docker").cpu_device
    only = choose_precision(cpu, find_backend(cpu, "onnx"), ("fp16",))
    assert (only.precision, only.warnings != ()) == ("fp16", True)
    assert choose_precision(cpu, find_backend(cpu, "onnx"), ("fp32", "fp16")).precision == "fp32"


# -- by measurement -------------------------------------------------------------------------------


def test_a_format_measured_slower_is_not_chosen(machine: Load) -> None:
    slow: dict[Precision, float] = {"fp32": 8e12, "fp16": 3e12}
    chosen = choose_precision(*on(machine("t4-linux")), speeds=slow)
    assert chosen.precision == "fp32"
    assert "measured no faster than fp32: 3.00 TFLOP/s against 8.00 TFLOP/s" in chosen.reason


@pytest.mark.parametrize(
    ("name", "precision", "taken"),
    [
        ("gtx1080ti-linux", "fp16", True),  # described as slow
        ("no-gpu", "bf16", True),
        ("macbook-m4", "bf16", True),  # unknown
        ("t4-linux", "bf16", False),  # emulated on a GPU: unreliable
    ],
)
def test_a_measurement_overrides_a_description_of_speed_only(
    machine: Load, name: str, precision: Precision, taken: bool
) -> None:
    speeds: dict[Precision, float] = {"fp32": 1e12, precision: 2e12}
    chosen = choose_precision(*on(machine(name)), ("fp32", precision), speeds=speeds)
    assert (chosen.precision == precision) is taken


# -- what the model supports -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "training", "wanted"),
    [
        ("quality", False, "fp32"), ("balanced", False, "bf16"), ("fast", False, "bf16"),
        ("low-memory", False, "bf16"), ("fast", True, "bf16"), ("low-memory", True, "bf16"),
    ],
)  # fmt: skip
def test_fp8_is_never_chosen_automatically(
    machine: Load, profile: ProfileName, training: bool, wanted: Precision
) -> None:
    chosen = choose_precision(
        *on(machine("h200-linux")), ALL, profile=profile, speeds=H200, training=training
    )
    assert chosen.precision == wanted


def test_fp8_is_for_training(machine: Load) -> None:
    chosen = choose_precision(*on(machine("h200-linux")), ALL, requested="fp8", training=True)
    assert chosen.precision == "fp8"
    assert "may diverge" in chosen.warnings[0]
    with pytest.raises(InvalidSettingError, match="only training with torch computes in fp8"):
        choose_precision(*on(machine("h200-linux")), ALL, requested="fp8")


@pytest.mark.parametrize("profile", ["fast", "low-memory", "balanced"])
def test_the_fnuz_variant_of_fp8_is_not_used(machine: Load, profile: ProfileName) -> None:
    """MI300X has fnuz; models are cast to OCP e4m3."""
    device, way = on(machine("mi300x-linux"))
    assert device.features.fp8
    for speeds in ({}, H200):
        assert choose_precision(device, way, ALL, profile=profile, speeds=speeds).precision != "fp8"
    with pytest.raises(InvalidSettingError, match="fnuz") as caught:
        choose_precision(device, way, ALL, requested="fp8", training=True)
    assert "bf16" in caught.value.hint
    newer = replace(device, features=replace(device.features, fnuz=False))
    chosen = choose_precision(newer, way, ALL, requested="fp8", training=True)
    assert chosen.precision == "fp8"


def test_training_prefers_native_bf16_to_fp16(machine: Load) -> None:
    device, way = on(machine("h200-linux"))
    order: tuple[Precision, ...] = ("fp32", "fp16", "bf16")
    assert choose_precision(device, way, order).precision == "fp16"
    assert choose_precision(device, way, order, training=True).precision == "bf16"
    assert choose_precision(device, way, ("fp32", "fp16"), training=True).precision == "fp16"


def test_fp16_is_never_chosen_to_train_on_a_cpu(machine: Load) -> None:
    for name in ("no-gpu", "h200-linux", "macbook-m4"):
        here = machine(name)
        device = here.cpu_device
        backend = DeviceBackend("torch", "cpu", "cpu")
        fast: dict[Precision, float] = {"fp32": 1e12, "fp16": 9e12}
        for profile in PROFILES:
            for speeds in ({}, fast):
                chosen = choose_precision(
                    device, backend, ("fp16", "fp32"), profile=profile, speeds=speeds,
                    training=True,
                )  # fmt: skip
                assert chosen.precision == "fp32"
        asked = choose_precision(device, backend, requested="fp16", training=True)
        assert "far slower in fp16" in asked.warnings[0]


def test_a_format_that_failed_the_self_test_is_not_chosen(machine: Load) -> None:
    device, way = on(machine("h200-linux"))
    chosen = choose_precision(device, way, speeds=H200, failed={"bf16": "values are off"})
    assert chosen.precision == "fp16"


# -- a requested format ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "requested", "training", "warning"),
    [
        ("h200-linux", "bf16", False, ""),
        ("t4-linux", "bf16", False, "emulated"),
        ("gtx1080ti-linux", "half", False, "no faster"),
        ("h200-linux", "fp16", True, "bf16 is native"),
        ("h200-linux", "fp8", True, "known to support"),
        ("macbook-m4", "torch.bfloat16", False, "unknown"),
    ],
)
def test_a_request_wins_with_a_warning(
    machine: Load, name: str, requested: str, training: bool, warning: str
) -> None:
    chosen = choose_precision(*on(machine(name)), requested=requested, training=training)
    assert chosen.precision == resolve_precision(requested)
    assert chosen.reason == "requested"
    assert bool(chosen.warnings) is bool(warning)
    assert any(warning in text for text in chosen.warnings) or not warning


def test_a_failed_format_may_be_requested(machine: Load) -> None:
    chosen = choose_precision(*on(machine("h200-linux")), requested="bf16", failed={"bf16": "NaN"})
    assert chosen.precision == "bf16"
    assert "failed the self-test: NaN" in chosen.warnings[0]


def test_an_unsupported_request_is_an_error_with_a_hint(machine: Load) -> None:
    with pytest.raises(InvalidSettingError, match="fp8 cannot be used on Tesla T4") as caught:
        choose_precision(*on(machine("t4-linux")), requested="fp8", training=True)
    assert "fp16" in caught.value.hint
    with pytest.raises(InvalidSettingError, match="unknown precision 'fp12'") as caught:
        choose_precision(*on(machine("t4-linux")), requested="fp12")
    assert "bf16" in caught.value.hint
    with pytest.raises(InvalidSettingError, match="unknown profile"):
        choose_precision(*on(machine("t4-linux")), profile="quick")  # type: ignore[arg-type]


# -- profiles -------------------------------------------------------------------------------------


def test_profile_table_of_every_recorded_machine(machine: Load, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            here = machine(name)
            usable = [device for device in here.devices if device.usable]
            for training in (False, True):
                rows = profile_table(here, training=training)
                assert len(rows) == len(PROFILES) * len(usable)
                assert all(len(row) == len(PROFILE_COLUMNS) and all(row) for row in rows)
            for device in here.devices:  # the share that a placement uses
                _, reason = memory_budget(device, PlacementOptions(profile="fast"))
                share = f"{PROFILES['fast'].memory_share(device):.0%} of"
                assert share in reason or "free" in reason or device.memory.total_bytes is None


# -- any input -------------------------------------------------------------------------------------

maybe = st.sampled_from([True, False, None])
features = st.builds(
    Features,
    fp16=st.sampled_from(["matrix", "fast", "slow", "none", None]),
    tf32=maybe, bf16=maybe, fp8=maybe, fp4=st.none(),
)  # fmt: skip
ways = st.sampled_from(
    [
        DeviceBackend(backend, selector, provider)  # type: ignore[arg-type]
        for backend, selector, provider in (
            ("torch", "cuda:0", "cuda"),
            ("torch", "xpu:0", "xpu"),
            ("torch", "mps", "mps"),
            ("torch", "cpu", "cpu"),
            ("onnx", "cuda:0", "CUDAExecutionProvider"),
            ("onnx", "cpu", "CPUExecutionProvider"),
        )
    ]
)
formats = st.sampled_from(PRECISIONS)


@settings(deadline=None)
@given(
    features=features,
    way=ways,
    supported=st.lists(formats, unique=True),
    profile=st.sampled_from(list(PROFILES)),
    speeds=st.dictionaries(formats, st.floats(1e9, 1e15)),
    broken=st.lists(formats, unique=True),
    training=st.booleans(),
)
def test_an_automatic_choice_is_always_safe(
    features: Features,
    way: DeviceBackend,
    supported: list[Precision],
    profile: ProfileName,
    speeds: dict[Precision, float],
    broken: list[Precision],
    training: bool,
) -> None:
    kind = "cpu" if way.selector == "cpu" else "gpu"
    device = Device("x", kind, "any", "X", features=features)  # type: ignore[arg-type]
    failed: dict[Precision, str] = dict.fromkeys(broken, "wrong")
    chosen = choose_precision(
        device, way, supported, profile=profile, speeds=speeds, failed=failed, training=training
    )
    assert isinstance(chosen, PrecisionChoice)
    assert chosen.reason
    got = chosen.precision
    assert got in supported or got == "fp32"
    forced = way.library == "onnx" and "fp32" not in supported  # a file is what it is
    if got != "fp32" and not forced:
        assert got not in broken
        assert not (got == "bf16" and features.bf16 is False and kind == "gpu")
        assert got != "fp8"
        if speeds.get(got) and speeds.get("fp32"):
            assert speeds[got] > speeds["fp32"]
