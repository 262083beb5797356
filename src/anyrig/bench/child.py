"""The child process that touches a device: one request on its input, JSON lines on its output.

    python -m anyrig.bench.child < request.json

Libraries print what they like to standard output; our lines go to a copy of it made before they
load.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any


def main() -> int:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.load(sys.stdin)

    def say(kind: str, **data: Any) -> None:
        answers.write(json.dumps({"kind": kind, **data}) + "\n")
        answers.flush()

    try:
        _serve(request, say)
    except Exception as error:  # noqa: BLE001 - whatever a driver throws is the answer
        text = " ".join(str(error).split())
        say("failed", error=f"{type(error).__name__}: {text}"[:600])
        return 1
    return 0


def _serve(request: dict[str, Any], say: Any) -> None:
    from anyrig.backends import open_runner
    from anyrig.bench import kernels
    from anyrig.devices.describe import Drive, device_from_json

    device, drive = device_from_json(request["device"]), Drive(**request["drive"])
    start = time.perf_counter()
    runner = open_runner(device, drive)
    error = kernels.probe(runner)
    say("probe", max_error=error, ran_on=runner.ran_on, kernels=list(runner.kernels),
        seconds=time.perf_counter() - start)  # fmt: skip
    if not request.get("measure"):
        return
    figures = kernels.measure(
        runner,
        free_bytes=device.memory.free_bytes,
        budget_s=float(request["budget_s"]),
        quick=bool(request["quick"]),
    )
    for figure in figures:
        say("figure", figure={**asdict(figure), "backend": drive.backend})


if __name__ == "__main__":
    sys.exit(main())
