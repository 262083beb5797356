"""torchrun in a process of its own, whose failures are written down instead of shown.

    python -m anyrig.training.distributed.agent REPORTS NPROC WORDS...

It is torch's own launcher with the options of `torchrun --standalone --nproc-per-node NPROC`.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from anyrig.backends.process import module_command
from anyrig.storage.files import write_atomic
from anyrig.training.distributed.orphans import end_with_parent

AGENT_FILE = "agent.json"


def main(words: Sequence[str]) -> int:
    """Run the processes until all are done or one fails; the exit code."""
    reports, nproc, *words = words
    # torchrun passes a signal on to its processes and waits for them before it kills.
    end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    logging.disable(logging.ERROR)  # the launcher says in words what torchrun would log
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    options = ["--standalone", "--nproc-per-node", nproc, "--local-addr", "localhost"]
    _, _, script, module = module_command("anyrig.training.distributed.entry")
    try:
        run(parse_args([*options, script, module, reports, *words]))  # type: ignore[no-untyped-call]  # torch's own
    except ChildFailedError as failed:
        ends = {str(rank): one.exitcode for rank, one in failed.failures.items()}
        write_atomic(Path(reports) / AGENT_FILE, json.dumps(ends))
        return 1
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
