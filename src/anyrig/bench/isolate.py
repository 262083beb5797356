"""Probes and measurements in child processes: a driver that hangs or dies ends only a child."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from anyrig.backends.process import (
    StderrTail,
    bind_device,
    describe_exit,
    kill_process_group,
    start_module,
)
from anyrig.bench.figures import Figure
from anyrig.devices.doctor import KernelResult
from anyrig.devices.machine import Device, DeviceBackend, backend_to_json, to_json

log = logging.getLogger(__name__)
# A first import of torch from a cold disk takes 5 s, from a network disk a minute.
START_S = 120.0
MEASURE_S = 60.0
QUICK_S = 4.0


@dataclass(frozen=True)
class Asked:
    """What a child is asked to do."""

    measure: bool = False
    quick: bool = False
    budget_s: float = MEASURE_S


def run(
    device: Device,
    backend: DeviceBackend,
    asked: Asked,
    environment: Mapping[str, str],
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[KernelResult | Figure]:
    """What a child finds on a device, as it finds it: first the proof, then the figures.

    Args:
        device: what to prove and measure.
        backend: through which backend.
        asked: how much of it.
        environment: this process's own.
        tell: is told what the child begins with.
    """
    variables, seen = bind_device(device, environment)
    request = {
        "device": to_json(seen),
        "backend": backend_to_json(backend),
        "measure": asked.measure,
        "quick": asked.quick,
        "budget_s": asked.budget_s,
    }
    limit = START_S + (asked.budget_s * 2 if asked.measure else 0)
    proven = False
    for line in _child(request, {**environment, **variables}, limit):
        if line["kind"] == "begin":
            tell(line["text"])
        elif line["kind"] == "figure":
            yield Figure(**line["figure"])
        elif line["kind"] == "probe":
            proven = True
            values = {name: line[name] for name in ("max_error", "finite", "ran_on", "seconds")}
            kernels = tuple(line["kernels"])
            values["provider"] = backend.provider
            yield KernelResult(backend.library, device.id, True, kernels=kernels, **values)
        elif not proven:
            yield KernelResult(
                backend.library, device.id, False, line["error"], provider=backend.provider
            )
        else:
            log.warning("%s through %s: %s", device.name, backend.library, line["error"])


def probe(device: Device, backend: DeviceBackend, environment: Mapping[str, str]) -> KernelResult:
    """Whether a kernel runs on a device and is right."""
    for answer in run(device, backend, Asked(), environment):
        if isinstance(answer, KernelResult):
            return answer
    return KernelResult(backend.library, device.id, False, "the child said nothing")


@dataclass(frozen=True)
class SelfTested:
    """What a device's self-test came to, in a process of its own."""

    device: str
    name: str
    seconds: float = 0.0
    messages: tuple[str, ...] = ()
    """What is switched off from now on, and why."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Attention backends that are wrong, and what was seen."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Number formats that are wrong, and what was seen."""
    rows: tuple[tuple[str, ...], ...] = ()
    error: str = ""
    """Why there is no answer."""


def self_test(
    device: Device,
    backend: DeviceBackend,
    path: Path,
    environment: Mapping[str, str],
    *,
    whole: bool = True,
) -> SelfTested:
    """Whether a device's attention and products are right, through torch; kept at a path.

    Args:
        device: what to test.
        backend: a torch backend.
        path: where the results are kept.
        environment: this process's own.
        whole: run every case, also where results are kept; else as many as first use runs.
    """
    variables, seen = bind_device(device, environment)
    request = {
        "device": to_json(seen),
        "backend": backend_to_json(backend),
        "selftest": str(path),
        "whole": whole,
    }
    for line in _child(request, {**environment, **variables}, START_S):
        if line["kind"] == "selftest":
            return SelfTested(
                device.id,
                device.name,
                line["seconds"],
                tuple(line["messages"]),
                line["faults"],
                line["failed"],
                tuple(tuple(row) for row in line["rows"]),
            )
        if line["kind"] == "failed":
            return SelfTested(device.id, device.name, error=line["error"])
    return SelfTested(device.id, device.name, error="the child said nothing")


def _child(
    request: Mapping[str, Any], environment: Mapping[str, str], limit_s: float
) -> Iterator[dict[str, Any]]:
    """The child's lines; a last one says why when it dies or does not end in time."""
    process = start_module("anyrig.bench.child", environment)
    lines: queue.Queue[str | None] = queue.Queue()
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    murmur = StderrTail(process.stderr)
    reader = threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        _send(process.stdin, json.dumps(request))
        deadline = time.monotonic() + limit_s
        failed = False
        while True:
            try:
                line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                yield {"kind": "failed", "error": f"no answer within {limit_s:.0f} s"}
                return
            if line is None:
                break
            answer = _ours(line)
            if answer is not None:
                failed = failed or answer["kind"] == "failed"
                yield answer
        code = process.wait()
        said = murmur.lines()
        if said:
            log.debug("child said: %s", "\n".join(said)[-2000:])
        if code and not failed:
            yield {"kind": "failed", "error": f"the child {describe_exit(code, said)}"}
    finally:
        kill_process_group(process)
        reader.join(timeout=5)


def _ours(line: str) -> dict[str, Any] | None:
    """A line of the child's, or None for what a start-up hook printed before it."""
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and "kind" in answer else None


def _send(pipe: IO[bytes], text: str) -> None:
    """Ask. The pipe stays open: its end tells the child that its parent is gone."""
    try:
        pipe.write(text.encode() + b"\n")
        pipe.flush()
    except BrokenPipeError:
        log.debug("the child ended before it was asked")


def _pump(pipe: IO[bytes], lines: queue.Queue[str | None]) -> None:
    with pipe:
        for line in pipe:
            lines.put(line.decode("utf-8", "replace"))
    lines.put(None)
