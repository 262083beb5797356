"""Kernel checks, measurements and self-tests in a child process.

A driver that hangs or crashes ends only the child.

The parent writes one request to the child's stdin and reads JSON lines from its stdout. Libraries
print to stdout as well, so the child writes its lines to a copy made before they load. The parent
keeps stdin open; when it closes, the parent is gone, and the child exits at once.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from anyrig.backends.process import (
    StderrTail,
    bind_device,
    claim_stdio,
    describe_exit,
    kill_process_group,
    start_module,
)
from anyrig.bench.measurements import Measurement
from anyrig.devices.doctor import KernelResult, describe_wrong_result
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    backend_from_json,
    backend_to_json,
    device_from_json,
    device_to_json,
)
from anyrig.memory.oom import detect_oom
from anyrig.memory.oom_patterns import find_shortage

log = logging.getLogger(__name__)
# Importing torch from a cold disk takes 5 s, from a network disk a minute.
START_S = 120.0
MEASURE_S, QUICK_S = 60.0, 4.0
_FULL_SELF_TEST_S = 90.0
Message = dict[str, Any]
Send = Callable[..., None]


class BenchResult(NamedTuple):
    kernel: KernelResult
    """Whether a kernel runs and is correct; if not, nothing was measured."""
    measurements: tuple[Measurement, ...] = ()
    transient: bool = False
    """It failed for a reason that may pass: out of memory, or too slow a start."""


@dataclass(frozen=True)
class SelfTestSummary:
    device: str
    name: str
    seconds: float = 0.0
    messages: tuple[str, ...] = ()
    """What is disabled from now on, and why."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Attention backends that are wrong, and what was seen."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Precisions that are wrong, and what was seen."""
    rows: tuple[tuple[str, ...], ...] = ()
    error: str = ""
    """Why there is no result."""


# -- the parent ------------------------------------------------------------------------------------


def check_kernel(
    device: Device, backend: DeviceBackend, environment: Mapping[str, str]
) -> KernelResult:
    """Run a kernel on a device and compare its result with the CPU's."""
    return _run_kernels(device, backend, environment, START_S).kernel


def measure_device(
    device: Device,
    backend: DeviceBackend,
    environment: Mapping[str, str],
    *,
    quick: bool = False,
    budget_s: float | None = None,
    on_progress: Callable[[str], None] = lambda text: None,
) -> BenchResult:
    """Check a device, then measure its speed.

    Args:
        environment: this process's own.
        quick: leave out the large matrix product.
        budget_s: seconds after which nothing new is started; by default 4 if quick, else 60.
        on_progress: called with what is measured next.
    """
    budget_s = budget_s or (QUICK_S if quick else MEASURE_S)
    options = {"measure": True, "quick": quick, "budget_s": budget_s}
    limit_s = START_S + 2 * budget_s
    return _run_kernels(device, backend, environment, limit_s, on_progress, **options)


def run_self_test(
    device: Device,
    backend: DeviceBackend,
    path: Path,
    environment: Mapping[str, str],
    *,
    full: bool = True,
) -> SelfTestSummary:
    """Test a device's attention and matrix products through torch, and save the results.

    Args:
        path: of the saved results.
        environment: this process's own.
        full: run every case, even if results are saved; otherwise as many as on first use.
    """
    options = {"selftest": str(path), "full": full}
    for message in _run_in_child(device, backend, environment, START_S, **options):
        if message["kind"] == "selftest":
            result = message["result"]
            result["rows"] = tuple(tuple(row) for row in result["rows"])
            result["messages"] = tuple(result["messages"])
            return SelfTestSummary(device.id, device.name, **result)
        return SelfTestSummary(device.id, device.name, error=message["error"])
    return SelfTestSummary(device.id, device.name, error="the child process reported nothing")


def _run_kernels(
    device: Device,
    backend: DeviceBackend,
    environment: Mapping[str, str],
    limit_s: float,
    on_progress: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> BenchResult:
    kernel = KernelResult(
        backend.library, device.id, False, "the child process reported nothing",
        provider=backend.provider,
    )  # fmt: skip
    measurements: list[Measurement] = []
    transient = False
    for message in _run_in_child(device, backend, environment, limit_s, **options):
        if message["kind"] == "progress":
            on_progress(message["text"])
        elif message["kind"] == "measurement":
            measurements.append(Measurement(**message["measurement"]))
        elif message["kind"] == "kernel":
            result = message["result"]
            kernels = tuple(result.pop("kernels"))
            kernel = replace(kernel, ok=True, error="", kernels=kernels, **result)
            if describe_wrong_result(kernel):
                break
        elif kernel.ok:
            log.warning("%s through %s: %s", device.name, backend.library, message["error"])
        else:
            kernel, transient = replace(kernel, error=message["error"]), message["transient"]
    return BenchResult(kernel, tuple(measurements), transient)


def _run_in_child(
    device: Device,
    backend: DeviceBackend,
    environment: Mapping[str, str],
    limit_s: float,
    **options: Any,
) -> Iterator[Message]:
    """Yield the child's messages; the last is `failed` if it raised, crashed or took too long.

    The limit holds until the child has ended, whatever it does with its output.
    """
    variables, visible = bind_device(device, environment)
    request = {"device": device_to_json(visible), "backend": backend_to_json(backend), **options}
    process = start_module("anyrig.bench.process", {**environment, **variables})
    stderr = StderrTail(process.stderr)
    # A thread reads, because a child that is stuck in a driver may never close its pipes.
    messages: queue.Queue[Message | None] = queue.Queue()
    threading.Thread(target=_read_messages, args=(process.stdout, messages), daemon=True).start()
    failed = False
    deadline = time.monotonic() + limit_s

    def left_s() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    try:
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            log.debug("the child process ended before it read the request")
        while message := messages.get(timeout=left_s()):
            failed = failed or message["kind"] == "failed"
            yield message
        code = process.wait(left_s())
        if code and not failed:
            error = f"the child process {describe_exit(code, stderr.lines())}"
            # The system kills a process with SIGKILL when the host's memory is full.
            transient = code == -9 or find_shortage(error) is not None
            yield {"kind": "failed", "error": error, "transient": transient}
    except (TimeoutError, queue.Empty, subprocess.TimeoutExpired):
        error = f"no answer within {limit_s:.0f} s"
        yield {"kind": "failed", "error": error, "transient": True}
    finally:
        kill_process_group(process)


def _read_messages(pipe: IO[bytes], messages: queue.Queue[Message | None]) -> None:
    with pipe:
        for line in pipe:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # printed by a start-up hook
            if isinstance(message, dict) and "kind" in message:
                messages.put(message)
    messages.put(None)


# -- the child: python -m anyrig.bench.process -----------------------------------------------------


def main() -> int:
    control, output = claim_stdio()
    request = json.loads(control.readline())
    threading.Thread(target=_exit_with_parent, args=(control,), daemon=True).start()

    def send(kind: str, **data: Any) -> None:
        output.write(json.dumps({"kind": kind, **data}, allow_nan=False).encode() + b"\n")
        output.flush()

    device, backend = device_from_json(request["device"]), backend_from_json(request["backend"])
    try:
        if "selftest" in request:
            send("selftest", result=_self_test(device, backend, request))
        else:
            _check_and_measure(device, backend, request, send)
    except Exception as error:  # noqa: BLE001 - whatever a driver raises is the answer
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
        send("failed", error=text, transient=detect_oom(error) is not None)
        return 1
    return 0


def _exit_with_parent(control: IO[bytes]) -> None:
    # Not through the file, whose lock would be held when the interpreter ends.
    while os.read(control.fileno(), 1024):
        pass
    os._exit(1)


def _check_and_measure(
    device: Device, backend: DeviceBackend, request: Mapping[str, Any], send: Send
) -> None:
    from anyrig.backends import open_runner
    from anyrig.bench import kernels

    start_s = time.perf_counter()
    runner = open_runner(device, backend)
    difference = kernels.compare_with_cpu(runner)
    finite = difference == difference
    result = {
        "max_error": difference if finite else None,
        "finite": finite,
        "ran_on": runner.ran_on,
        "kernels": runner.architectures,
        "seconds": time.perf_counter() - start_s,
    }
    send("kernel", result=result)
    if not request.get("measure"):
        return
    for measurement in kernels.measure_kernels(
        runner,
        free_bytes=device.memory.free_bytes,
        budget_s=request["budget_s"],
        quick=request["quick"],
        on_progress=lambda text: send("progress", text=text),
    ):
        send("measurement", measurement={**asdict(measurement), "backend": backend.library})


def _self_test(device: Device, backend: DeviceBackend, request: Mapping[str, Any]) -> Message:
    from anyrig.precision import selftest

    full: bool = request["full"]
    budget_s = _FULL_SELF_TEST_S if full else selftest.BUDGET_S
    path = Path(request["selftest"])
    report = selftest.load_or_run(device, backend, path, rerun=full, budget_s=budget_s)
    faults = report.attention_faults
    return {
        "seconds": report.seconds,
        "messages": selftest.describe_faults(faults),
        "faults": faults,
        "failed": report.failed_formats,
        "rows": selftest.results_table(report.results),
    }


if __name__ == "__main__":
    sys.exit(main())
