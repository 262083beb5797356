"""Whether a device computes right: once per device, driver, torch and cuDNN, kept, and acted upon.

Attention backends that give wrong or non-finite values are switched off in the process that
computes: in this one by `guarded`, in a worker by its placement, before its engine loads. Number
formats whose products are wrong are named, for `choose` to leave them. torch's plain attention
(`math`) is never switched off: it is what the others fall back to.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.devices.amd import is_fnuz
from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.precision.verdict import Result, from_plain, to_plain
from anyrig.storage import files

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)
_FORMAT = 1
_VERSION = 1
"""Raised when cases or tolerances change: what was kept under another is not used."""
BUDGET_S = 10.0
"""After so long no new case is begun; the known faults come first."""
_TITLES = {"cudnn": "cuDNN", "flash": "flash", "efficient": "memory-efficient", "math": "plain"}
_SWITCHES = {
    "cudnn": "enable_cudnn_sdp",
    "flash": "enable_flash_sdp",
    "efficient": "enable_mem_efficient_sdp",
}


@dataclass(frozen=True)
class Report:
    """What the self-test of a device came to."""

    results: tuple[Result, ...]
    key: str
    """Device, driver and libraries under which it holds."""
    seconds: float
    kept: bool = False
    """Whether it was read from an earlier run."""
    messages: tuple[str, ...] = ()
    """What was switched off, and why."""

    @property
    def failed(self) -> dict[Precision, str]:
        """Formats that cannot be trusted here, for `choose`."""
        return failed(self.results)


def guarded(
    device: Device,
    drive: DeviceBackend,
    path: Path | None = None,
    *,
    again: bool = False,
    budget_s: float = BUDGET_S,
) -> Report:
    """As `get_report`, and switch off in this process what failed."""
    if drive.backend != "torch":
        return Report((), "", 0.0)
    report = get_report(device, drive, path, again=again, budget_s=budget_s)
    return replace(report, messages=switch_off(report.results))


def get_report(
    device: Device,
    drive: DeviceBackend,
    path: Path | None = None,
    *,
    again: bool = False,
    budget_s: float = BUDGET_S,
) -> Report:
    """Test a device or read what was found before.

    Args:
        device: what to test.
        drive: a drive of torch; others have nothing to test here.
        path: where results are kept; nowhere when None.
        again: test even if a result is kept.
        budget_s: seconds after which no new case is begun.
    """
    report = None if again or path is None else load(path).get(stamp(device, drive))
    if report is None:
        report = run(device, drive, budget_s=budget_s)
        if path is not None:
            keep(path, report)
    return report


def run(device: Device, drive: DeviceBackend, *, budget_s: float = BUDGET_S) -> Report:
    """Test a device now. Nothing is kept or switched off."""
    from anyrig.backends.torch import find
    from anyrig.precision.attention import try_attention
    from anyrig.precision.products import try_products
    from anyrig.precision.tf32 import tf32

    start = time.perf_counter()
    where = find(device, drive)
    halves = _halves(device, drive)
    with tf32(False), _one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of contexts and kernels that are made on first use
        results = [*try_products(where, _formats(device, drive))]
        if where.type != "privateuseone":  # DirectML has plain attention alone
            results += try_attention(where, ("fp32", *halves), deadline=start + budget_s)
    seconds = time.perf_counter() - start
    log.info("self-test of %s: %d tries in %.1f s", device.name, len(results), seconds)
    return Report(tuple(results), stamp(device, drive), seconds)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Matrices this small gain nothing from threads and lose much to waiting on a busy CPU."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _halves(device: Device, drive: DeviceBackend) -> tuple[Precision, ...]:
    """The half formats worth a try: DirectML has no bf16."""
    if drive.provider == "privateuseone":
        return ("fp16",)
    return ("fp16", "bf16")


def _formats(device: Device, drive: DeviceBackend) -> tuple[Precision, ...]:
    found: tuple[Precision, ...] = ("fp32", *_halves(device, drive))
    if device.features.tf32 and drive.provider == "cuda":
        found = (*found, "tf32")
    if device.features.fp8 and drive.provider == "cuda" and not is_fnuz(device.capability):
        found = (*found, "fp8")
    return found


def stamp(device: Device, drive: DeviceBackend) -> str:
    """Device, driver, torch and cuDNN: a result holds under these alone."""
    import torch

    library: Any = torch.backends.cudnn
    cudnn = library.version() if drive.provider == "cuda" and library.is_available() else None
    parts = (
        device.id,
        drive.provider,
        f"driver {device.driver_version or '-'}",
        f"torch {torch.__version__}",
        f"cuDNN {cudnn or '-'}",
        f"test {_VERSION}",
    )
    return "; ".join(parts)


# -- what follows from results --------------------------------------------------------------------


def faulty(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Attention backends that gave wrong answers that count, with those answers."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.tried.area == "attention" and result.counts:
            found.setdefault(result.tried.backend, []).append(result)
    return found


def failed(results: Iterable[Result]) -> dict[Precision, str]:
    """Formats whose products, or whose plain attention, are wrong."""
    found: dict[Precision, str] = {}
    for result in results:
        basic = result.tried.area == "product" or result.tried.backend == "math"
        if basic and result.counts and result.tried.precision != "fp32":
            what = f"{result.tried.area} ({result.tried.case}): {result.seen}"
            found.setdefault(result.tried.precision, what)
    return found


def switch_off(results: Iterable[Result]) -> tuple[str, ...]:
    """Turn off attention backends that failed, for this process; what was done, in words."""
    messages = []
    for backend, text in faults(results).items():
        if switch_off_attention([backend]):
            message = f"{text}; it is switched off, torch takes another"
        else:
            message = f"{text}; it cannot be switched off"
        log.warning("%s", message)
        messages.append(message)
    return tuple(messages)


def switch_off_attention(backends: Iterable[str]) -> tuple[str, ...]:
    """Turn off attention backends for this process; those of them that can be."""
    import torch

    found = []
    for backend in backends:
        switch = getattr(torch.backends.cuda, _SWITCHES.get(backend, ""), None)
        if switch is not None:
            switch(False)
            found.append(backend)
    return tuple(found)


def faults(results: Iterable[Result]) -> dict[str, str]:
    """Attention backends that gave wrong answers, and what was seen, in words."""
    return {backend: _told(backend, wrong) for backend, wrong in faulty(results).items()}


def switchable(backends: Iterable[str]) -> tuple[str, ...]:
    """Those of these attention backends that torch can do without."""
    return tuple(backend for backend in backends if backend in _SWITCHES)


def _told(backend: str, wrong: Sequence[Result]) -> str:
    worst = max(wrong, key=lambda result: result.error)
    first = next((result for result in wrong if result.num_bad), worst)
    formats = ", ".join(dict.fromkeys(result.tried.precision for result in wrong))
    source = f" ({first.source})" if first.source else ""
    return (
        f"{_TITLES[backend]} attention is wrong in {formats}: "
        f"at {first.tried.case} {first.seen}{source}"
    )


# -- keeping --------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Report]:
    """What was kept; a file that cannot be read is an empty one, to be made anew."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            return {}
        return {key: _report(key, row) for key, row in data["tests"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def known_failures(
    path: Path, devices: Iterable[Device], torch_version: str
) -> dict[str, dict[Precision, str]]:
    """By device id: formats that an earlier test under the same driver and torch found wrong."""
    known = known_reports(path, devices, torch_version)
    return {id: report.failed for id, report in known.items() if report.failed}


def known_reports(path: Path, devices: Iterable[Device], torch_version: str) -> dict[str, Report]:
    """By device id: earlier tests under the same driver and torch. Imports no torch."""
    found: dict[str, Report] = {}
    devices = tuple(devices)
    for key, report in load(path).items():
        parts = key.split("; ")
        for device in devices:
            mine = parts[0] == device.id and f"driver {device.driver_version or '-'}" in parts
            if mine and f"torch {torch_version}" in parts and f"test {_VERSION}" in parts:
                found[device.id] = report
    return found


def _report(key: str, row: Mapping[str, Any]) -> Report:
    results = tuple(from_plain(result) for result in row["results"])
    return Report(results, key, float(row["seconds"]), kept=True)


def keep(path: Path, report: Report) -> None:
    """Add a report to those kept, in place of older ones of the same device."""
    device = report.key.partition("; ")[0]
    kept = {k: r for k, r in load(path).items() if k.partition("; ")[0] != device}
    rows = {
        key: {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "seconds": round(each.seconds, 3),
            "results": [to_plain(result) for result in each.results],
        }
        for key, each in {**kept, report.key: report}.items()
    }
    try:
        files.write_atomic(path, json.dumps({"format": _FORMAT, "tests": rows}) + "\n")
    except OSError as error:
        log.warning("the self-test's results are not kept: %s", error)


# -- showing --------------------------------------------------------------------------------------


def table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Results as rows of text: what, backend, format, case, verdict, detail."""
    rows: list[tuple[str, ...]] = []
    for result in results:
        tried = result.tried
        detail = f"{result.error:.2f} of the tolerance"
        if result.verdict == "wrong":
            detail = result.seen
        elif result.verdict == "not there":
            detail = result.note
        verdict = result.verdict if result.verdict != "wrong" or tried.decides else "told only"
        rows.append(
            (tried.area, tried.backend or "-", tried.precision, tried.case, verdict, detail)
        )
    return rows


def probe_gradients(device: torch.device) -> int:
    """Values that are not finite in one attention step at length 704 as torch would run it now."""
    from anyrig.precision.attention import CASES, attend, inputs

    found = attend(inputs(CASES[0]), "bf16", device)
    return sum(int((~tensor.isfinite()).sum()) for tensor in found)
