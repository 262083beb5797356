"""Self-test of a device: are attention and matrix products correct, in every precision?

Runs once per device, driver, torch and cuDNN; results are cached in a file. Attention backends that
return wrong or non-finite values are disabled in the process that computes: here by
`apply_selftest`, in a worker by its placement, before its engine loads. Precisions whose
products are wrong are reported for `choose_precision` to avoid. torch's plain attention (`math`) is
never disabled: it is what the others fall back to. `kernel_checks.py` has the checks.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from anyrig.backends.precisions import list_precisions
from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.storage import files

log = logging.getLogger(__name__)
_FORMAT = 1
_VERSION = 1
"""Increase when cases or tolerances change: results cached under another version are not used."""
BUDGET_S = 10.0
"""No new case is started after this time; the known faults come first."""
Verdict = Literal["right", "wrong", "unsupported"]
_STORED_VERDICTS = {"unsupported": "not there"}
"""How verdicts are written in the results file, where that differs."""
_BACKEND_NAMES = {
    "cudnn": "cuDNN", "flash": "flash", "efficient": "memory-efficient", "math": "plain",
}  # fmt: skip
_SWITCHES = {
    "cudnn": "enable_cudnn_sdp",
    "flash": "enable_flash_sdp",
    "efficient": "enable_mem_efficient_sdp",
}


@dataclass(frozen=True)
class CheckResult:
    """One check of attention or of a matrix product. Its fields are those of the results file."""

    area: Literal["attention", "product"]
    backend: str
    """Of attention: cudnn, flash, efficient, math. Empty for products."""
    precision: Precision
    case: str
    verdict: Verdict = "unsupported"
    """A backend that does not accept a shape or format is unsupported, which is not a fault."""
    error: float = 0.0
    """The largest error relative to the tolerance: above 1 is wrong."""
    num_bad: int = 0
    """Values that are not finite."""
    where: str = ""
    """The first tensor that is wrong: out, grad_q, grad_k, grad_v."""
    note: str = ""
    source: str = ""
    """Where a known fault is reported."""
    affects_choice: bool = True
    """Whether a wrong result has consequences, or is only reported."""

    @property
    def is_fault(self) -> bool:
        return self.verdict == "wrong" and self.affects_choice

    @property
    def problem(self) -> str:
        if self.note:
            return self.note
        if self.num_bad:
            return f"{self.num_bad:,} values of {self.where} are not finite"
        return f"the error of {self.where} is {self.error:.3g} times the tolerance"


@dataclass(frozen=True)
class SelfTestReport:
    results: tuple[CheckResult, ...]
    key: str
    """Device, driver and libraries that the results are valid for."""
    seconds: float

    @property
    def failed_formats(self) -> dict[Precision, str]:
        """Formats with wrong products or wrong plain attention, and what is wrong."""
        found: dict[Precision, str] = {}
        for result in self.results:
            basic = result.area == "product" or result.backend == "math"
            if basic and result.is_fault and result.precision != "fp32":
                found.setdefault(
                    result.precision, f"{result.area} ({result.case}): {result.problem}"
                )
        return found

    @property
    def attention_faults(self) -> dict[str, str]:
        """Attention backends that return wrong results, and what is wrong."""
        faults: dict[str, list[CheckResult]] = {}
        for result in self.results:
            if result.area == "attention" and result.is_fault:
                faults.setdefault(result.backend, []).append(result)
        return {backend: _describe_fault(backend, wrong) for backend, wrong in faults.items()}


def _describe_fault(backend: str, wrong: list[CheckResult]) -> str:
    worst = max(wrong, key=lambda result: result.error)
    first = next((result for result in wrong if result.num_bad), worst)
    formats = ", ".join(dict.fromkeys(result.precision for result in wrong))
    source = f"; {first.source}" if first.source else ""
    return (
        f"{_BACKEND_NAMES[backend]} attention is wrong in {formats}: "
        f"{first.problem} ({first.case}{source})"
    )


# -- running ---------------------------------------------------------------------------------------


def apply_selftest(
    device: Device,
    backend: DeviceBackend,
    path: Path | None = None,
    *,
    budget_s: float = BUDGET_S,
) -> SelfTestReport:
    """Load or run the self-test, and disable faulty attention backends in this process."""
    if backend.library != "torch":
        return SelfTestReport((), "", 0.0)
    report = load_or_run(device, backend, path, budget_s=budget_s)
    disable_attention(report.attention_faults)
    for message in describe_faults(report.attention_faults):
        log.warning("%s", message)
    return report


def load_or_run(
    device: Device,
    backend: DeviceBackend,
    path: Path | None = None,
    *,
    rerun: bool = False,
    budget_s: float = BUDGET_S,
) -> SelfTestReport:
    """Load cached results, or run the self-test and cache them.

    Args:
        backend: a torch backend of the device; there are no checks for others.
        path: the file of cached results; None does not cache.
        rerun: run it even if results are cached.
        budget_s: seconds after which no new case is started.
    """
    if path is not None and not rerun:
        report = load_reports(path).get(report_key(device, backend))
        if report is not None:
            return report
    report = run_selftest(device, backend, budget_s=budget_s)
    if path is not None:
        save_report(path, report)
    return report


def run_selftest(
    device: Device, backend: DeviceBackend, *, budget_s: float = BUDGET_S
) -> SelfTestReport:
    """Run every check now, without caching or disabling anything."""
    from anyrig.backends.torch import find_torch_device, use_tf32
    from anyrig.precision.kernel_checks import check_attention, check_products

    start = time.perf_counter()
    target = find_torch_device(device, backend)
    precisions = list_precisions(device, backend)
    with use_tf32(False), _single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about contexts and kernels created on first use
        results = list(check_products(target, precisions))
        formats = [one for one in precisions if one not in ("tf32", "fp8")]
        results += check_attention(target, formats, deadline=start + budget_s)
    seconds = time.perf_counter() - start
    log.info("self-test of %s: %d checks in %.1f s", device.name, len(results), seconds)
    return SelfTestReport(tuple(results), report_key(device, backend), seconds)


@contextlib.contextmanager
def _single_thread() -> Iterator[None]:
    """Matrices this small gain nothing from threads and lose much to waiting on a busy CPU."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def disable_attention(backends: Iterable[str]) -> None:
    """Disable attention backends in this process, those that torch can do without."""
    import torch

    for backend in select_disableable(backends):
        switch = getattr(torch.backends.cuda, _SWITCHES[backend], None)
        if switch is not None:
            switch(False)


def select_disableable(backends: Iterable[str]) -> tuple[str, ...]:
    """The attention backends of these that torch can do without."""
    return tuple(backend for backend in backends if backend in _SWITCHES)


def describe_faults(faults: Mapping[str, str]) -> list[str]:
    """What is wrong with attention backends, and what was done about each."""
    done = "disabled, torch uses another backend"
    return [
        f"{fault}; {done if backend in _SWITCHES else 'it cannot be disabled'}"
        for backend, fault in faults.items()
    ]


# -- cached results --------------------------------------------------------------------------------


def report_key(device: Device, backend: DeviceBackend) -> str:
    """Device, driver, torch and cuDNN: results are valid for these only."""
    import torch

    library: Any = torch.backends.cudnn
    cudnn = library.version() if backend.provider == "cuda" and library.is_available() else None
    return (
        f"{device.id}; {backend.provider}; driver {device.driver_version or '-'}; "
        f"torch {torch.__version__}; cuDNN {cudnn or '-'}; test {_VERSION}"
    )


def find_reports(
    path: Path, devices: Iterable[Device], torch_version: str
) -> dict[str, SelfTestReport]:
    """Cached reports by device id, for the present driver and torch. Does not import torch."""
    found: dict[str, SelfTestReport] = {}
    drivers = {device.id: f"driver {device.driver_version or '-'}" for device in devices}
    for key, report in load_reports(path).items():
        device_id, *parts = key.split("; ")
        current = {f"torch {torch_version}", f"test {_VERSION}", drivers.get(device_id, "")}
        if current.issubset(parts):
            found[device_id] = report
    return found


def load_reports(path: Path) -> dict[str, SelfTestReport]:
    """Cached reports by key. A file that cannot be read counts as empty and will be replaced."""
    try:
        rows = files.read_versioned(path, _FORMAT).get("tests", {})
        return {key: _parse_report(key, row) for key, row in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _parse_report(key: str, row: Mapping[str, Any]) -> SelfTestReport:
    verdicts = {stored: verdict for verdict, stored in _STORED_VERDICTS.items()}
    renamed = {"decides": "affects_choice"}  # as 0.1.0 wrote it
    results = tuple(
        CheckResult(**{
            **{renamed.get(name, name): value for name, value in one.items()},
            "verdict": verdicts.get(one["verdict"], one["verdict"]),
        })
        for one in row["results"]
    )  # fmt: skip
    return SelfTestReport(results, key, float(row["seconds"]))


def save_report(path: Path, report: SelfTestReport) -> None:
    """Add a report to the file, replacing older ones of the same device."""
    device = report.key.partition("; ")[0]
    others = {k: r for k, r in load_reports(path).items() if k.partition("; ")[0] != device}
    rows = {
        key: {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "seconds": round(each.seconds, 3),
            "results": [_store(result) for result in each.results],
        }
        for key, each in {**others, report.key: report}.items()
    }
    try:
        files.write_versioned(path, _FORMAT, {"tests": rows})
    except OSError as error:
        log.warning("the self-test results could not be saved: %s", error)


def _store(result: CheckResult) -> dict[str, Any]:
    verdict = _STORED_VERDICTS.get(result.verdict, result.verdict)
    return {**asdict(result), "verdict": verdict, "error": min(result.error, 1e30)}  # no infinity


def results_table(results: Iterable[CheckResult]) -> list[tuple[str, ...]]:
    """Rows of text: area, backend, format, case, verdict, detail."""
    rows: list[tuple[str, ...]] = []
    for result in results:
        details = {
            "right": f"{result.error:.2f} of the tolerance",
            "wrong": result.problem,
            "unsupported": result.note,
        }
        ignored = result.verdict == "wrong" and not result.affects_choice
        verdict = "wrong, but ignored" if ignored else result.verdict
        where = (result.area, result.backend or "-", result.precision, result.case)
        rows.append((*where, verdict, details[result.verdict]))
    return rows
