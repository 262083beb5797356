"""A script for launches: what it does is said by its first word. Without torch where it can."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def main(what: str, folder: Path) -> None:
    """Rank 1 is the one that something happens to; rank 0 would wait for ever."""
    rank = os.environ["RANK"]
    (folder / f"pid{rank}").write_text(str(os.getpid()))
    if what == "restart":
        restart(folder, rank)
        return
    if what == "print":
        print(sys.argv[3:])
        while not (folder / "seen").exists():
            time.sleep(0.05)
        return
    if what == "error" and rank == "1":
        raise ValueError("the data is not there")
    if what == "killed" and rank == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        (folder / f"ready{rank}").touch()
        time.sleep(600)
    except KeyboardInterrupt:
        (folder / f"kept{rank}").touch()
        raise


def restart(folder: Path, rank: str) -> None:
    from anyrig.training.distributed.launch import request_restart, requested_micro_batch

    micro = requested_micro_batch(folder)
    if micro is None:
        if rank == "1":
            request_restart(folder, 4)
        time.sleep(600)
    from anyrig.training.distributed.launch import open_group

    group = open_group("ddp", os.environ, timeout_s=60)
    all_told = group.min(10 + group.rank)
    group.close()
    (folder / f"done{rank}").write_text(f"{micro} {os.environ['OMP_NUM_THREADS']} {all_told}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
