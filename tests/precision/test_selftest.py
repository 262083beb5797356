"""The self-test on this CPU, and with an attention that is broken as cuDNN's was."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import KernelError
from anyrig.precision import attention, products, selftest
from anyrig.precision.verdict import Result, Tried, from_plain, to_plain

CPU = Device("cpu", "cpu", "any", "a CPU", driver_version="1")
DRIVE = DeviceBackend("torch", "cpu", "cpu", True, "")
NOWHERE = torch.device("cpu")
BACKENDS: Any = torch.backends.cuda
SWITCHES = ("flash", "mem_efficient", "cudnn", "math")


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """Attention backends are on or off for a whole process."""
    before = {name: getattr(BACKENDS, f"{name}_sdp_enabled")() for name in SWITCHES}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    for name, on in before.items():
        getattr(BACKENDS, f"enable_{name}_sdp")(on)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flash attention as cuDNN's was (pytorch#196678): NaN in grad_q at these three conditions.

    A fake, because the fault needs one GPU with one library.
    """
    real = F.scaled_dot_product_attention

    def attend(query: Any, key: Any, value: Any, **options: Any) -> Any:
        out = real(query, key, value, **options)
        suspect = (
            BACKENDS.flash_sdp_enabled()
            and options.get("attn_mask") is not None
            and query.shape[-2] % 128 == 64
            and query.dtype != torch.float32
        )
        if suspect and (query @ key.mT).max() / math.sqrt(query.shape[-1]) < -88.7:
            query.register_hook(lambda gradient: gradient * math.nan)
        return out

    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)


SHORT = [case for case in attention.CASES if case.queries < 100]
"""Cases that a CPU without half-precision instructions computes in a moment."""


@pytest.fixture(scope="module")
def real() -> selftest.Report:
    """Without a limit of time, which would end it early on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "try_attention", partial(attention.try_attention, cases=SHORT))
        return selftest.run(CPU, DRIVE, budget_s=math.inf)


# -- this CPU --------------------------------------------------------------------------------------


def test_this_cpu_is_right(real: selftest.Report) -> None:
    wrong = [result for result in real.results if result.verdict == "wrong"]
    assert not wrong
    assert real.failed == {}
    tried = {(r.tried.backend, r.tried.precision) for r in real.results if r.verdict == "right"}
    assert {("math", "fp32"), ("math", "bf16"), ("flash", "fp16"), ("", "bf16")} <= tried


def test_what_is_not_there_is_no_fault(real: selftest.Report) -> None:
    cudnn = [result for result in real.results if result.tried.backend == "cudnn"]
    assert len(cudnn) == 3 * len(SHORT) > 0
    assert {result.verdict for result in cudnn} == {"not there"}
    assert selftest.switch_off(real.results) == ()
    assert BACKENDS.cudnn_sdp_enabled()


def test_errors_are_well_inside_the_tolerance_and_not_nothing(real: selftest.Report) -> None:
    """A tolerance a hundred times too wide would let a wrong kernel pass."""
    halves = [r for r in real.results if r.verdict == "right" and r.tried.precision == "bf16"]
    assert 0.02 < max(result.error for result in halves) < 0.5


def test_the_reference_is_autograds(real: selftest.Report) -> None:
    case = attention.Case("small", 5, 7, 8, heads=4, key_heads=2, mask="additive")
    given = attention.inputs(case)
    query, key, value = (t.clone().requires_grad_() for t in given[:3])
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=given.mask, enable_gqa=True)
    out.backward(given.back)  # type: ignore[no-untyped-call]
    truth = attention.reference(given).values
    for ours, theirs in zip(truth, (out, query.grad, key.grad, value.grad), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("case", attention.CASES, ids=lambda case: case.name)
def test_inputs_are_exact_in_every_format(case: attention.Case) -> None:
    given = attention.inputs(case)
    tensors = [*given[:3], given.back]
    if given.mask is not None and given.mask.dtype != torch.bool:
        tensors.append(given.mask)
    for tensor in tensors:
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            near = tensor.to(dtype).double()
            assert torch.equal(near, tensor) or (near - tensor).abs().max() < 1e-6


def test_the_cases_cover_what_was_reported() -> None:
    lengths = {case.queries for case in attention.CASES}
    assert {704, 640, 1, 17, 1000} <= lengths
    assert {case.head_dim for case in attention.CASES} == {64, 80, 128}
    assert {case.mask for case in attention.CASES} == {
        "none", "causal", "bool", "additive", "padding", "empty rows"
    }  # fmt: skip
    assert any(case.heads != case.key_heads for case in attention.CASES)
    assert attention.CASES[0].queries % 128 == 64


# -- a broken backend ------------------------------------------------------------------------------


def test_a_broken_backend_is_flagged_switched_off_and_the_step_is_finite(
    broken: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert selftest.probe_gradients(NOWHERE) == 704 * 64
    with caplog.at_level(logging.WARNING):
        report = selftest.guarded(CPU, DRIVE, tmp_path / "selftests.json")
    assert len(report.messages) == 1
    assert report.messages[0] == (
        "flash attention is wrong in fp16, bf16: at 704 with a mask, very negative logits "
        "45,056 values of grad_q are not finite (pytorch#196678, trl#7181); "
        "it is switched off, torch takes another"
    )
    assert report.messages[0] in caplog.text
    assert not BACKENDS.flash_sdp_enabled()
    assert selftest.probe_gradients(NOWHERE) == 0
    assert report.failed == {}  # plain attention is sound in every format


def test_what_was_found_is_kept_and_applied_again(broken: None, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "selftests.json"
    first = selftest.guarded(CPU, DRIVE, path)
    BACKENDS.enable_flash_sdp(True)
    second = selftest.guarded(CPU, DRIVE, path)
    assert (first.kept, second.kept) == (False, True)
    assert second.results == first.results
    assert second.messages == first.messages
    assert not BACKENDS.flash_sdp_enabled()
    assert not selftest.guarded(CPU, DRIVE, path, again=True).kept


def test_another_driver_is_tested_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "CASES", ())
    path = tmp_path / "selftests.json"
    selftest.keep(path, selftest.Report((), selftest.stamp(CPU, DRIVE), 1.0))
    assert selftest.guarded(CPU, DRIVE, path).kept
    newer = Device("cpu", "cpu", "any", "a CPU", driver_version="2")
    monkeypatch.setattr(
        selftest, "run", lambda d, w, **_: selftest.Report((), selftest.stamp(d, w), 0)
    )
    assert not selftest.guarded(newer, DRIVE, path).kept
    assert list(selftest.load(path)) == [selftest.stamp(newer, DRIVE)]  # the old page is dropped


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 9}', '{"format": 1, "tests": 3}'])
def test_a_file_that_cannot_be_read_is_an_empty_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "selftests.json"
    path.write_text(text)
    assert selftest.load(path) == {}


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    selftest.keep(tmp_path / "file" / "selftests.json", selftest.Report((), "x", 0.0))
    assert "not kept" in caplog.text


def test_onnx_has_nothing_to_test_here() -> None:
    way = DeviceBackend("onnx", "cpu", "CPUExecutionProvider", True, "")
    assert selftest.guarded(CPU, way).results == ()


# -- what follows ----------------------------------------------------------------------------------


def wrong(backend: str, area: Any = "attention", **more: Any) -> Result:
    tried = Tried(area, backend, more.pop("precision", "bf16"), "a case", more.pop("decides", True))
    return Result(tried, "wrong", **more)


def test_plain_attention_stays_on_and_its_format_is_named() -> None:
    results = [wrong("math", num_bad=3, where="out")]
    (message,) = selftest.switch_off(results)
    assert "cannot be switched off" in message
    assert BACKENDS.math_sdp_enabled()
    assert selftest.failed(results) == {
        "bf16": "attention (a case): 3 values of out are not finite"
    }


def test_wrong_products_name_their_format_and_fp32_is_never_left() -> None:
    results = [
        wrong("", "product", precision="fp16", error=7.0, where="product"),
        wrong("", "product", precision="fp32", error=7.0, where="product"),
        wrong("", "product", decides=False, error=7.0, where="product"),
    ]
    assert selftest.failed(results) == {
        "fp16": "product (a case): product is off by 7 times what rounding explains"
    }


def test_what_is_only_told_switches_nothing_off() -> None:
    assert selftest.switch_off([wrong("flash", decides=False)]) == ()
    rows = selftest.table([wrong("flash", decides=False, note="raised")])
    assert rows == [("attention", "flash", "bf16", "a case", "told only", "raised")]


def test_results_go_through_json() -> None:
    result = wrong("cudnn", num_bad=45056, error=math.inf, where="grad_q", source="somewhere")
    back = from_plain(json.loads(json.dumps(to_plain(result))))
    assert back.tried == result.tried
    assert (back.num_bad, back.error) == (45056, 1e30)


def test_a_kernel_that_raises_is_wrong_and_a_dead_device_ends_the_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(error: Exception) -> None:
        def attend(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(F, "scaled_dot_product_attention", attend)

    case = attention.CASES[9]
    fails(RuntimeError("cuDNN Frontend error: No valid execution plans built."))
    results = list(attention.try_attention(NOWHERE, ("bf16",), [case]))
    assert {result.verdict for result in results} == {"wrong"}
    assert "No valid execution plans" in results[0].seen
    fails(torch.OutOfMemoryError("CUDA out of memory."))
    results = list(attention.try_attention(NOWHERE, ("bf16",), [case]))
    assert {result.verdict for result in results} == {"not there"}
    fails(torch.AcceleratorError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(KernelError, match="illegal memory access"):
        list(attention.try_attention(NOWHERE, ("bf16",), [case]))


def test_a_deadline_ends_it_after_the_known_faults() -> None:
    assert list(attention.try_attention(NOWHERE, ("bf16",), deadline=0.0)) == []


def test_fp8_products_are_tried_where_they_run() -> None:
    results = list(products.try_products(NOWHERE, ("fp8",)))
    verdicts = {result.tried.case: result.verdict for result in results}
    assert verdicts["256 x 512 x 256"] in ("right", "not there")
    assert verdicts["17 x 1000 x 33"] == "not there"


def test_products_that_are_wrong_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that adds up in its own format, as one would that has no wider sums."""
    real = products._dense

    def careless(given: Any, precision: Any, device: Any) -> Any:
        return [tensor * 1.2 for tensor in real(given, precision, device)]

    monkeypatch.setattr(products, "_dense", careless)
    results = list(products.try_products(NOWHERE, ("fp16",)))
    assert "fp16" in selftest.failed(results)
