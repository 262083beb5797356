"""Whether what runs in this container does its work: exit status 0, or 1 with the reason.

    healthcheck.py server          GET /health/live answers
    healthcheck.py worker          the broker has had a sign of this worker in the last seconds
    healthcheck.py coordinator     the broker has had a sign of the coordinator

It needs Python alone; what a cluster says of itself it takes from `anyrig cluster status --json`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from typing import Any

_TIMEOUT_S = 8.0


def server() -> str:
    """Why the server is not well; empty where it is."""
    port = os.environ.get("ANYRIG_SERVER_PORT") or os.environ.get("PORT") or "3000"
    url = f"http://127.0.0.1:{port}/health/live"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            return "" if answer.status == 200 else f"{url} answers {answer.status}"
    except OSError as error:
        return f"{url}: {error}"


def worker() -> str:
    """Why this container's worker gets no work; empty where it does, or is asked to leave."""
    said = _status()
    if isinstance(said, str):
        return said
    name = os.environ.get("WORKER_ID") or socket.gethostname()
    # A machine with several devices has NAME-1, NAME-2, ...
    mine = [row for row in said["workers"]
            if row["name"] == name or row["name"].startswith(f"{name}-")]  # fmt: skip
    if not mine:
        return f"no worker {name} has joined"
    lost = [row["name"] for row in mine if row["status"] == "lost"]
    return f"no sign of {', '.join(lost)}" if lost else ""


def coordinator() -> str:
    """Why there is no coordinator; empty where there is one."""
    said = _status()
    if isinstance(said, str):
        return said
    return "" if said["coordinator"] else "the coordinator gives no sign"


def _status() -> Any:
    """The cluster, or why it cannot be asked."""
    try:
        done = subprocess.run(
            ["anyrig", "cluster", "status", "--json"],
            capture_output=True, text=True, timeout=3 * _TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"anyrig cluster status: {error}"
    if done.returncode:
        return done.stderr.strip() or f"anyrig cluster status ended with {done.returncode}"
    return json.loads(done.stdout)


_ROLES = {"server": server, "worker": worker, "coordinator": coordinator}


def main(words: list[str]) -> str | int:
    """What `sys.exit` takes."""
    role = words[0] if words else "server"
    if role not in _ROLES:
        return f"healthcheck.py {'|'.join(_ROLES)}"
    return _ROLES[role]() or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
