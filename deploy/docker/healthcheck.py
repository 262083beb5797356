"""Whether what runs in this container does its work: exit status 0, or 1 with the reason.

    healthcheck.py server          GET /health/live answers
    healthcheck.py worker          every process of the worker beats; the broker is not asked
    healthcheck.py coordinator     the coordinator beats; the broker is not asked
    healthcheck.py joined          the broker has had a sign of every process of the worker

The first three say whether a container should be started anew: a worker that waits for its broker
is well, and must not lose the models that it has loaded. The last one says whether it gets work.
It needs Python alone; what a cluster says of itself it takes from `anyrig cluster status --json`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

_TIMEOUT_S = 8.0
_OLD_S = 180.0
"""A beat comes every two seconds; where the broker's host swallows all, every minute or two."""
_PARENT = ".all"
"""The file of a worker's process that only starts others, one for each device."""


def server() -> str:
    """Why the server is not well; empty where it is."""
    port = os.environ.get("ANYRIG_SERVER_PORT") or ""
    if not port or "://" in port:  # what Kubernetes sets for a service called anyrig-server
        port = os.environ.get("PORT") or "3000"
    url = f"http://127.0.0.1:{port}/health/live"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            return "" if answer.status == 200 else f"{url} answers {answer.status}"
    except OSError as error:
        return f"{url}: {error}"


def beats() -> str:
    """Which process does not beat; empty where all do."""
    found = _files()
    if not found:
        return "no beat yet"
    silent = []
    for path in found:
        try:
            ago_s = time.time() - path.stat().st_mtime
        except FileNotFoundError:  # it has just left
            continue
        if ago_s > _OLD_S:
            silent.append(f"{path.name} has not beaten for {ago_s:.0f} s")
    return "; ".join(silent)


def joined() -> str:
    """Why this container's worker gets no work; empty where it does, or is asked to leave."""
    names = {path.name: _text(path) for path in _files() if path.name != _PARENT}
    if not names:
        return "no worker has joined"
    waiting = [file for file, name in names.items() if not name]
    if waiting:
        return f"{', '.join(waiting)} has not joined"
    said = _status()
    if isinstance(said, str):
        return said
    # By the very names that they have in the broker: what others are called does not matter.
    there = {row["name"]: row["status"] for row in said["workers"]}
    lost = [name for name in names.values() if there.get(name, "lost") == "lost"]
    return f"no sign of {', '.join(lost)}" if lost else ""


def _files() -> list[Path]:
    """Those that the processes of this container touch; one that is just being written apart."""
    folder = Path(os.environ.get("ANYRIG_BEATS") or "/tmp/anyrig-beats")
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.endswith("~"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


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


_ROLES = {"server": server, "worker": beats, "coordinator": beats, "joined": joined}


def main(words: list[str]) -> str | int:
    """What `sys.exit` takes."""
    role = words[0] if words else "server"
    if role not in _ROLES:
        return f"healthcheck.py {'|'.join(_ROLES)}"
    return _ROLES[role]() or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
