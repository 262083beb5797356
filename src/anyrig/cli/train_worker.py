"""Several processes that train one model: started here, and each of them is this module.

    python -m anyrig.cli.train_worker '{"run": ..., "devices": [...], "options": {...}}'

The first one shows what happens. Errors are raised, not printed: the launcher tells of them once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.errors import DeviceUnusableError, WorkError

if TYPE_CHECKING:
    from pathlib import Path

    from anyrig.services.train_runs import Run


def devices(context: Context, count: int | None) -> list[str]:
    """The ids of the devices for so many processes; one for each device of the chosen kind.

    With fewer devices than processes they take turns, as on a CPU.
    """
    chosen = context.choose().devices
    kind, maker = chosen[0].kind, chosen[0].vendor
    alike = [one for one in context.machine.devices if one.usable and one.kind == kind]
    if len(chosen) == 1 and kind == "gpu":
        found = [chosen[0], *(o for o in alike if o.vendor == maker and o.id != chosen[0].id)]
    else:
        found = [one for one in chosen if one.kind == kind]
    names = [one.id for one in found]
    if count is None:
        return names
    if kind == "gpu" and count > len(names):
        raise DeviceUnusableError(
            f"{count} processes, and {len(names)} of {chosen[0].name} or its like",
            hint=f"Take --nproc {len(names)}, or --device cpu.",
        )
    return [names[number % len(names)] for number in range(count)]


def launched(context: Context, run: Run, num: int) -> dict[str, Any]:
    """Train in several processes; what came of it. Ctrl-C is passed on to them."""
    from anyrig.cli.show import print_warning
    from anyrig.services import train, train_runs
    from anyrig.training.distributed.launch import launch

    ids = devices(context, num)
    options = dict(vars(context.options))
    if context.machine.cpu_device.id in ids:
        options["no_bench"] = True  # several at once would measure each other
    told = {"run": str(run.folder), "devices": ids, "options": options}
    (run.folder / train_runs.RESULT).unlink(missing_ok=True)
    words = ["-m", "anyrig.cli.train_worker", json.dumps(told)]
    try:
        launch(
            words, num, environment=context.environment, tell=print_warning,
            cores=max(1, int(context.machine.cpu.cores_usable)),
        )  # fmt: skip
    except KeyboardInterrupt:
        if _result(run.folder) is None:
            raise
    result = _result(run.folder)
    if result is None:
        raise WorkError(
            "the processes ended and left no result", hint="Their output above says more."
        )
    if result["finished"] and train.LEFT in (result.get("made") or {}):
        result = train.finish(run, result)
    return result


def _result(folder: Path) -> dict[str, Any] | None:
    from anyrig.services import train_runs

    return train_runs.result_of(folder)


def main(words: list[str]) -> int:
    """One of the processes."""
    from pathlib import Path

    from anyrig.cli import train as command
    from anyrig.cli import train_show
    from anyrig.services import train, train_runs

    told = json.loads(words[0])
    mine = int(os.environ["LOCAL_RANK"])  # torchrun's word on who this is
    first = os.environ["RANK"] == "0"
    options = argparse.Namespace(**told["options"])
    options.device = told["devices"][mine]
    if not first:
        options.verbose = 0
    context = Context(options)
    run = train_runs.opened(Path(told["run"]))
    placement = command.placed(context, run.train)
    placement = train.shared(
        placement, told["devices"].count(options.device), context.machine.cpu.cores_usable
    )
    with train_show.Shown(context, quiet=not first) as shown:
        shown.where(placement)
        train.train(
            run, placement=placement, environment=context.environment, sinks=shown.sinks,
            tell=shown.step, explain=lambda reasons: context.log_reasons("training", reasons),
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
