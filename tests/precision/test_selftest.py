"""The self-test on this CPU, and with attention that is broken as cuDNN's was."""

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
from anyrig.precision import kernel_checks, selftest
from anyrig.precision.selftest import CheckResult, SelfTestReport

CPU = Device("cpu", "cpu", "any", "a CPU", driver_version="1")
TORCH = DeviceBackend("torch", "cpu", "cpu")
HOST = torch.device("cpu")
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


SHORT = [case for case in kernel_checks.ATTENTION_CASES if case.queries < 100]
"""Cases that a CPU without half-precision instructions computes in a moment."""


@pytest.fixture(scope="module")
def real() -> SelfTestReport:
    """Without a limit of time, which would end it early on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            kernel_checks, "check_attention", partial(kernel_checks.check_attention, cases=SHORT)
        )
        return selftest.run_selftest(CPU, TORCH, budget_s=math.inf)


# -- this CPU -------------------------------------------------------------------------------------


def test_this_cpu_is_correct(real: SelfTestReport) -> None:
    wrong = [result for result in real.results if result.verdict == "wrong"]
    assert not wrong
    assert real.failed_formats == {}
    tried = {(r.backend, r.precision) for r in real.results if r.verdict == "right"}
    assert {("math", "fp32"), ("math", "bf16"), ("flash", "fp16"), ("", "bf16")} <= tried


def test_an_unavailable_backend_is_not_a_fault(real: SelfTestReport) -> None:
    cudnn = [result for result in real.results if result.backend == "cudnn"]
    assert len(cudnn) == 3 * len(SHORT) > 0
    assert {result.verdict for result in cudnn} == {"unsupported"}
    assert real.attention_faults == {}


def test_the_reference_agrees_with_autograd(real: SelfTestReport) -> None:
    case = kernel_checks.AttentionCase("small", 5, 7, 8, heads=4, key_heads=2, mask="additive")
    given = kernel_checks.make_attention_inputs(case)
    query, key, value = (t.clone().requires_grad_() for t in given[:3])
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=given.mask, enable_gqa=True)
    out.backward(given.grad_out)  # type: ignore[no-untyped-call]
    truth = kernel_checks.attention_reference(given).values
    for ours, theirs in zip(truth, (out, query.grad, key.grad, value.grad), strict=True):
        torch.testing.assert_close(ours, theirs)


def _nonfinite_gradients() -> int:
    """In one attention step at length 704, as torch runs it now."""
    inputs = kernel_checks.make_attention_inputs(kernel_checks.ATTENTION_CASES[0])
    found = kernel_checks.run_attention(inputs, "bf16", HOST)
    return sum(int((~tensor.isfinite()).sum()) for tensor in found)


# -- a broken backend -----------------------------------------------------------------------------


def test_a_broken_backend_is_disabled_and_the_step_is_finite_again(
    broken: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert _nonfinite_gradients() == 704 * 64
    with caplog.at_level(logging.WARNING):
        report = selftest.apply_selftest(CPU, TORCH, tmp_path / "selftests.json", budget_s=600)
    assert caplog.messages == [
        "flash attention is wrong in fp16, bf16: 45,056 values of grad_q are not finite "
        "(704 with a mask, very negative logits; pytorch#196678, trl#7181); "
        "disabled, torch uses another backend"
    ]
    assert not BACKENDS.flash_sdp_enabled()
    assert _nonfinite_gradients() == 0
    assert report.failed_formats == {}  # plain attention is right in every format


def test_cached_results_are_applied_again(
    broken: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cache" / "selftests.json"
    first = selftest.apply_selftest(CPU, TORCH, path, budget_s=600)
    BACKENDS.enable_flash_sdp(True)
    empty = SelfTestReport((), selftest.report_key(CPU, TORCH), 0.0)
    monkeypatch.setattr(selftest, "run_selftest", lambda *_, **__: empty)
    second = selftest.apply_selftest(CPU, TORCH, path, budget_s=600)
    assert second.results == first.results
    assert not BACKENDS.flash_sdp_enabled()
    assert selftest.load_or_run(CPU, TORCH, path, rerun=True) == empty


def test_another_driver_is_tested_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "selftests.json"
    selftest.save_report(path, SelfTestReport((), selftest.report_key(CPU, TORCH), 1.0))
    assert selftest.apply_selftest(CPU, TORCH, path, budget_s=600).seconds == 1.0
    newer = Device("cpu", "cpu", "any", "a CPU", driver_version="2")
    monkeypatch.setattr(
        selftest,
        "run_selftest",
        lambda d, w, **_: SelfTestReport((), selftest.report_key(d, w), 0),
    )
    assert selftest.apply_selftest(newer, TORCH, path).seconds == 0
    assert list(selftest.load_reports(path)) == [
        selftest.report_key(newer, TORCH)
    ]  # the old report is dropped


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1, "tests": 3}'])
def test_an_unreadable_file_counts_as_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "selftests.json"
    path.write_text(text)
    assert selftest.load_reports(path) == {}


# -- consequences ----------------------------------------------------------------------------------


def wrong(backend: str, **more: Any) -> CheckResult:
    values = {"area": "attention", "precision": "bf16", "case": "a case", **more}
    return CheckResult(backend=backend, verdict="wrong", **values)


def report(*results: CheckResult) -> SelfTestReport:
    return SelfTestReport(results, "key", 0.0)


def test_plain_attention_stays_enabled_and_its_format_fails() -> None:
    found = report(wrong("math", num_bad=3, where="out"))
    assert selftest.select_disableable(found.attention_faults) == ()
    assert BACKENDS.math_sdp_enabled()
    assert found.failed_formats == {"bf16": "attention (a case): 3 values of out are not finite"}


def test_wrong_products_fail_their_format_but_never_fp32() -> None:
    found = report(
        wrong("", area="product", precision="fp16", error=7.0, where="product"),
        wrong("", area="product", precision="fp32", error=7.0, where="product"),
        wrong("", area="product", affects_choice=False, error=7.0, where="product"),
    )
    assert found.failed_formats == {
        "fp16": "product (a case): the error of product is 7 times the tolerance"
    }


def test_the_file_of_the_first_release_is_read(tmp_path: Path) -> None:
    row = {"area": "attention", "backend": "cudnn", "precision": "bf16", "case": "a case",
           "decides": True, "verdict": "wrong", "error": 0.0, "num_bad": 3, "where": "grad_q",
           "note": "", "source": "pytorch#196678"}  # fmt: skip
    path = tmp_path / "selftests.json"
    test = {"when": "2026-11-15T12:00:00+00:00", "seconds": 1.5, "results": [row]}
    path.write_text(json.dumps({"format": 1, "tests": {"key": test}}))
    assert set(selftest.load_reports(path)["key"].attention_faults) == {"cudnn"}


def test_a_kernel_that_raises_is_wrong_and_a_device_error_ends_the_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(error: Exception) -> None:
        def attend(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(F, "scaled_dot_product_attention", attend)

    case = kernel_checks.ATTENTION_CASES[9]
    fails(RuntimeError("cuDNN Frontend error: No valid execution plans built."))
    results = list(kernel_checks.check_attention(HOST, ("bf16",), [case]))
    assert {result.verdict for result in results} == {"wrong"}
    assert "No valid execution plans" in results[0].problem
    fails(torch.OutOfMemoryError("CUDA out of memory."))
    results = list(kernel_checks.check_attention(HOST, ("bf16",), [case]))
    assert {result.verdict for result in results} == {"unsupported"}
    fails(torch.AcceleratorError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(KernelError, match="illegal memory access"):
        list(kernel_checks.check_attention(HOST, ("bf16",), [case]))


def test_fp8_products_are_checked_where_they_run() -> None:
    results = list(kernel_checks.check_products(HOST, ("fp8",)))
    verdicts = {result.case: result.verdict for result in results}
    assert verdicts["256 x 512 x 256"] in ("right", "unsupported")
    assert verdicts["17 x 1000 x 33"] == "unsupported"


def test_wrong_products_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose products are 20 % off."""
    real = kernel_checks.run_product

    def off(*given: Any) -> Any:
        return [tensor * 1.2 for tensor in real(*given)]

    monkeypatch.setattr(kernel_checks, "run_product", off)
    results = kernel_checks.check_products(HOST, ("fp16",))
    assert "fp16" in report(*results).failed_formats
