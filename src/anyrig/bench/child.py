"""The child process that touches a device: one request on its input, JSON lines on its output.

    python -m anyrig.bench.child < request.json

Libraries print what they like to standard output; our lines go to a copy of it made before they
load. The input stays open as long as the parent lives: when it closes, the child ends at once, so
that no parent, however it died, leaves a child computing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

_WHOLE_S = 90.0  # asked for by name, the self-test may take its time


def main() -> int:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(_first_line())
    if os.name == "posix":
        # On Windows a thread that waits on a pipe keeps other libraries from loading.
        threading.Thread(target=_end_with_parent, daemon=True).start()

    def say(kind: str, **data: Any) -> None:
        answers.write(json.dumps({"kind": kind, **data}, allow_nan=False) + "\n")
        answers.flush()

    try:
        _serve(request, say)
    except Exception as error:  # noqa: BLE001 - whatever a driver throws is the answer
        text = " ".join(str(error).split())
        say("failed", error=f"{type(error).__name__}: {text}"[:600])
        return 1
    return 0


def _first_line() -> bytes:
    # Not sys.stdin: its lock would be held by the watching thread when the interpreter ends.
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            break
        data += more
    return data


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def _serve(request: dict[str, Any], say: Any) -> None:
    if "selftest" in request:
        _self_test(request, say)
        return
    from anyrig.backends import open_runner
    from anyrig.bench import kernels
    from anyrig.devices.machine import backend_from_json, device_from_json

    device, backend = device_from_json(request["device"]), backend_from_json(request["backend"])
    start = time.perf_counter()
    runner = open_runner(device, backend)
    error = kernels.probe(runner)
    finite = error == error
    say(
        "probe",
        max_error=error if finite else None,
        finite=finite,
        ran_on=runner.ran_on,
        kernels=list(runner.architectures),
        seconds=time.perf_counter() - start,
    )
    if not request.get("measure"):
        return
    figures = kernels.measure(
        runner,
        free_bytes=device.memory.free_bytes,
        budget_s=float(request["budget_s"]),
        quick=bool(request["quick"]),
        tell=lambda text: say("begin", text=text),
    )
    for figure in figures:
        say("figure", figure={**asdict(figure), "backend": backend.library})


def _self_test(request: dict[str, Any], say: Any) -> None:
    from pathlib import Path

    from anyrig.devices.machine import backend_from_json, device_from_json
    from anyrig.precision import selftest

    device, backend = device_from_json(request["device"]), backend_from_json(request["backend"])
    path = Path(request["selftest"])
    whole = bool(request["whole"])
    budget_s = _WHOLE_S if whole else selftest.BUDGET_S
    report = selftest.load_or_run(device, backend, path, rerun=whole, budget_s=budget_s)
    faults = report.attention_faults
    off = selftest.select_disableable(faults)
    say(
        "selftest",
        seconds=report.seconds,
        messages=[
            f"{text}; {'it is not used from now on' if name in off else 'it cannot be left out'}"
            for name, text in faults.items()
        ],
        faults=faults,
        failed=report.failed_formats,
        rows=selftest.results_table(report.results),
    )


if __name__ == "__main__":
    sys.exit(main())
