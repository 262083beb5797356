from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.devices.machine import Device, DeviceBackend, Features, Machine, Precision
from anyrig.errors import InvalidSettingError
from anyrig.precision.choose import USUAL, Chosen, choose, parse
from anyrig.precision.fitness import PRECISIONS
from anyrig.precision.presets import PRESETS, Profile

Load = Callable[..., Machine]
ALL: tuple[Precision, ...] = (*USUAL, "fp8")
H200: dict[Precision, float] = {
    "fp32": 51e12, "tf32": 404e12, "fp16": 737e12, "bf16": 785e12, "fp8": 1417e12,
}  # fmt: skip


def drive(device: Device, backend: str, provider: str = "") -> DeviceBackend:
    return next(d for d in device.backends if d.backend == backend and provider in ("", d.provider))


def on(
    machine: Machine, backend: str = "torch", provider: str = ""
) -> tuple[Device, DeviceBackend]:
    device = machine.gpus[0] if machine.gpus else machine.cpu_device
    return device, drive(device, backend, provider)


# -- by description --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "training", "wanted", "words"),
    [
        ("h200-linux", False, "bf16", "native"),
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
        ("nvidia-init-fails", False, "fp32", "nobody could tell"),
    ],
)
def test_what_a_description_leads_to(
    machine: Load, name: str, training: bool, wanted: Precision, words: str
) -> None:
    chosen = choose(*on(machine(name)), training=training)
    assert chosen.precision == wanted
    assert words in chosen.reason
    assert not chosen.warnings


def test_a_guess_says_that_it_is_one(machine: Load) -> None:
    assert "described, not measured" in choose(*on(machine("h200-linux"))).reason


def test_the_small_turing_cards_stay_out_of_fp16(machine: Load) -> None:
    """GTX 16xx are quick in fp16 and give NaN; no figure makes that right."""
    device, way = on(machine("t4-linux"))
    small = replace(device, name="GTX 1660", features=replace(device.features, fp16="fast"))
    chosen = choose(small, way, speeds={"fp32": 5e12, "fp16": 10e12})
    assert chosen.precision == "fp32"
    assert "NaN" in chosen.reason


def test_directml_casts_whole_models_and_trains_in_fp32(machine: Load) -> None:
    device, way = on(machine("vega8-directml-windows"), "torch", "privateuseone")
    assert choose(device, way).precision == "fp16"
    assert "whole model is cast" in choose(device, way).reason
    assert choose(device, way, training=True).precision == "fp32"
    with pytest.raises(InvalidSettingError, match="DirectML has no bf16"):
        choose(device, way, asked="bf16")
    with pytest.raises(InvalidSettingError, match="autocast does nothing"):
        choose(device, way, asked="fp16", training=True)


def test_onnx_runs_what_the_file_holds(machine: Load) -> None:
    device, way = on(machine("rtx4070-laptop-docker"), "onnx", "CUDAExecutionProvider")
    assert choose(device, way, ("fp32",)).precision == "fp32"
    assert choose(device, way, ("fp32", "fp16")).precision == "fp16"
    stays = choose(device, way, ("fp32",), asked="fp16")
    assert stays.precision == "fp32"
    assert "no fp16 file" in stays.warnings[0]
    cpu = machine("rtx4070-laptop-docker").cpu_device
    only = choose(cpu, drive(cpu, "onnx"), ("fp16",))
    assert (only.precision, only.warnings != ()) == ("fp16", True)
    assert choose(cpu, drive(cpu, "onnx"), ("fp32", "fp16")).precision == "fp32"


# -- by measurement --------------------------------------------------------------------------------


def test_figures_are_in_the_reason(machine: Load) -> None:
    chosen = choose(*on(machine("h200-linux")), speeds=H200)
    assert chosen.reason == "measured 785 TFLOP/s against 51.0 TFLOP/s in fp32, 15 times as fast"
    passed = dict(chosen.passed_over)
    assert passed["tf32"] == "1.9 times slower than bf16"
    assert set(passed) == {"fp32", "tf32", "fp16"}


def test_a_format_measured_slower_is_left(machine: Load) -> None:
    slow: dict[Precision, float] = {"fp32": 8e12, "fp16": 3e12}
    chosen = choose(*on(machine("t4-linux")), speeds=slow)
    assert chosen.precision == "fp32"
    assert "measured no faster: 3.00 TFLOP/s against 8.00 TFLOP/s in fp32" in chosen.reason


@pytest.mark.parametrize(
    ("name", "precision", "taken"),
    [
        ("gtx1080ti-linux", "fp16", True),  # described as slow: about speed alone
        ("no-gpu", "fp16", True),
        ("no-gpu", "bf16", True),
        ("macbook-m4", "bf16", True),  # unknown
        ("t4-linux", "bf16", False),  # emulated on a GPU: not a matter of speed
    ],
)
def test_a_figure_overrules_what_is_only_about_speed(
    machine: Load, name: str, precision: Precision, taken: bool
) -> None:
    speeds: dict[Precision, float] = {"fp32": 1e12, precision: 2e12}
    chosen = choose(*on(machine(name)), ("fp32", precision), speeds=speeds)
    assert (chosen.precision == precision) is taken


def test_tf32_that_no_backend_can_switch_on_is_not_taken(machine: Load) -> None:
    device, way = on(machine("vega8-directml-windows"), "torch", "privateuseone")
    able = replace(device, features=replace(device.features, tf32=True))
    speeds: dict[Precision, float] = {"fp32": 1e12, "tf32": 2e12}
    assert choose(able, way, ("fp32", "tf32"), speeds=speeds).precision == "fp32"


def test_a_small_gain_does_not_leave_what_the_author_ranks_higher(machine: Load) -> None:
    close: dict[Precision, float] = {"fp32": 10e12, "fp16": 12e12}
    device, way = on(machine("t4-linux"))
    assert choose(device, way, ("fp32", "fp16"), speeds=close).precision == "fp32"
    fast = choose(device, way, ("fp32", "fp16"), speeds=close, profile="fast")
    assert fast.precision == "fp16"


# -- what the model bears --------------------------------------------------------------------------


def test_tf32_needs_to_be_allowed(machine: Load) -> None:
    device, way = on(machine("h200-linux"))
    assert choose(device, way, ("fp32",), speeds=H200).precision == "fp32"
    assert choose(device, way, ("fp32", "tf32"), speeds=H200).precision == "tf32"
    strict = choose(device, way, ("fp32", "tf32"), speeds=H200, profile="quality")
    assert strict.precision == "fp32"


def test_quality_is_the_authors_order(machine: Load) -> None:
    device, way = on(machine("h200-linux"))
    trained_so: tuple[Precision, ...] = ("bf16", "fp32")
    assert choose(device, way, trained_so, profile="quality").precision == "bf16"
    t4, way = on(machine("t4-linux"))
    assert choose(t4, way, trained_so, profile="quality").precision == "fp32"
    assert choose(t4, way, ("bf16",), profile="quality").precision == "fp32"


@pytest.mark.parametrize(
    ("profile", "training", "wanted"),
    [
        ("quality", False, "fp32"), ("balanced", False, "bf16"), ("fast", False, "fp8"),
        ("low-memory", False, "fp8"), ("fast", True, "bf16"), ("low-memory", True, "bf16"),
    ],
)  # fmt: skip
def test_fp8_is_for_trained_models_that_bear_it(
    machine: Load, profile: Profile, training: bool, wanted: Precision
) -> None:
    chosen = choose(
        *on(machine("h200-linux")), ALL, profile=profile, speeds=H200, training=training
    )
    assert chosen.precision == wanted


@pytest.mark.parametrize("profile", ["fast", "low-memory", "balanced"])
def test_fp8_of_another_variant_is_not_taken(machine: Load, profile: Profile) -> None:
    """MI300X computes in fnuz; what models are cast to is OCP's e4m3."""
    device, way = on(machine("mi300x-linux"))
    assert device.features.fp8
    for speeds in ({}, H200):
        assert choose(device, way, ALL, profile=profile, speeds=speeds).precision != "fp8"
    for training in (False, True):
        with pytest.raises(InvalidSettingError, match="fnuz") as caught:
            choose(device, way, ALL, asked="fp8", training=training)
        assert "bf16" in caught.value.hint
    newer = replace(device, capability="gfx950")
    assert choose(newer, way, ALL, profile="fast").precision == "fp8"


def test_training_takes_bf16_before_fp16_even_if_fp16_is_ranked_higher(machine: Load) -> None:
    device, way = on(machine("h200-linux"))
    order: tuple[Precision, ...] = ("fp32", "fp16", "bf16")
    assert choose(device, way, order).precision == "fp16"
    assert choose(device, way, order, training=True).precision == "bf16"
    assert choose(device, way, ("fp32", "fp16"), training=True).precision == "fp16"


def test_what_failed_its_test_is_left(machine: Load) -> None:
    device, way = on(machine("h200-linux"))
    chosen = choose(device, way, speeds=H200, failed={"bf16": "values are off"})
    assert chosen.precision == "fp16"
    assert ("bf16", "the self-test failed: values are off") in chosen.passed_over


# -- what is asked for -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "training", "warning"),
    [
        ("h200-linux", "bf16", False, ""),
        ("h200-linux", "FP32", True, ""),
        ("t4-linux", "bf16", False, "emulated"),
        ("gtx1080ti-linux", "half", False, "no faster"),
        ("t4-linux", "fp16", True, "overflow"),
        ("h200-linux", "fp16", True, "bf16 is native"),
        ("no-gpu", "float16", False, "no faster"),
        ("h200-linux", "fp8", False, "known to bear only"),
        ("macbook-m4", "torch.bfloat16", False, "nobody could tell"),
    ],
)
def test_what_is_asked_for_wins_with_a_warning(
    machine: Load, name: str, asked: str, training: bool, warning: str
) -> None:
    chosen = choose(*on(machine(name)), asked=asked, training=training)
    assert chosen.precision == parse(asked)
    assert chosen.reason == "asked for"
    assert bool(chosen.warnings) is bool(warning)
    assert any(warning in text for text in chosen.warnings) or not warning


def test_a_failed_format_may_be_asked_for(machine: Load) -> None:
    chosen = choose(*on(machine("h200-linux")), asked="bf16", failed={"bf16": "NaN"})
    assert chosen.precision == "bf16"
    assert "the self-test failed: NaN" in chosen.warnings[0]


def test_tf32_without_units_is_told_as_fp32(machine: Load) -> None:
    chosen = choose(*on(machine("t4-linux")), asked="tf32")
    assert chosen.precision == "fp32"
    assert "plain fp32" in chosen.warnings[0]


def test_what_cannot_be_is_an_error_with_a_way_out(machine: Load) -> None:
    with pytest.raises(InvalidSettingError, match="fp8 cannot be used on Tesla T4") as caught:
        choose(*on(machine("t4-linux")), asked="fp8")
    assert "fp16" in caught.value.hint
    with pytest.raises(InvalidSettingError, match="no number format is called 'fp12'") as caught:
        choose(*on(machine("t4-linux")), asked="fp12")
    assert "bf16" in caught.value.hint
    with pytest.raises(InvalidSettingError, match="no profile"):
        choose(*on(machine("t4-linux")), profile="quick")  # type: ignore[arg-type]


# -- whatever comes --------------------------------------------------------------------------------

maybe = st.sampled_from([True, False, None])
features = st.builds(
    Features,
    fp16=st.sampled_from(["matrix", "fast", "slow", "none", None]),
    tf32=maybe, bf16=maybe, fp8=maybe, fp4=st.none(),
)  # fmt: skip
ways = st.sampled_from(
    [
        DeviceBackend("torch", "cuda:0", "cuda", True, ""),
        DeviceBackend("torch", "xpu:0", "xpu", True, ""),
        DeviceBackend("torch", "mps", "mps", True, ""),
        DeviceBackend("torch", "dml:0", "privateuseone", True, ""),
        DeviceBackend("torch", "cpu", "cpu", True, ""),
        DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider", True, ""),
        DeviceBackend("onnx", "cpu", "CPUExecutionProvider", True, ""),
    ]
)  # fmt: skip
formats = st.sampled_from(PRECISIONS)


@settings(deadline=None)
@given(
    features=features,
    way=ways,
    allowed=st.lists(formats, unique=True),
    profile=st.sampled_from(list(PRESETS)),
    speeds=st.dictionaries(formats, st.floats(1e9, 1e15)),
    broken=st.lists(formats, unique=True),
    training=st.booleans(),
)
def test_an_automatic_choice_is_never_foolish(
    features: Features,
    way: DeviceBackend,
    allowed: list[Precision],
    profile: Profile,
    speeds: dict[Precision, float],
    broken: list[Precision],
    training: bool,
) -> None:
    kind = "cpu" if way.selector == "cpu" else "gpu"
    device = Device("x", kind, "any", "X", features=features)  # type: ignore[arg-type]
    failed: dict[Precision, str] = dict.fromkeys(broken, "wrong")
    chosen = choose(
        device, way, allowed, profile=profile, speeds=speeds, failed=failed, training=training
    )
    assert isinstance(chosen, Chosen)
    assert chosen.reason
    got = chosen.precision
    assert got in allowed or got == "fp32"
    forced = way.backend == "onnx" and "fp32" not in allowed  # a file is what it is
    if got != "fp32" and not forced:
        assert got not in broken
        assert not (got == "bf16" and features.bf16 is False and kind == "gpu")
        assert not (got == "fp8" and (training or features.fp8 is not True))
        assert not (way.provider == "privateuseone" and training)
        if speeds.get(got) and speeds.get("fp32"):
            assert speeds[got] > speeds["fp32"]
