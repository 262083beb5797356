"""Starts a server, asks it for what works without any set-up, and prints what came back as JSON.

python -m tests.server.cut_off.walk FOLDER
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.server.conftest import Server, running


def reachable() -> bool:
    """Whether there is a way out: asked of the kernel, nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return False
    return True


def walk(server: Server) -> dict[str, Any]:
    """By what was asked for, what came back."""
    client = server.client
    found: dict[str, Any] = {"config": client.get("/config").json()["default_voice"]}
    for kind in ("wav", "mp3"):
        said = {"input": "The tide came in at noon.", "voice": "alloy", "model": "tts-1",
                "response_format": kind}  # fmt: skip
        found[kind] = _size(client.post("/v1/audio/speech", json=said))
    texts = ["the tide came in", "the water rose", "a list of prices"]
    answer = client.post("/v1/embeddings", json={"input": texts})
    found["vectors"] = [len(one["embedding"]) for one in answer.raise_for_status().json()["data"]]
    for task in ("embed", "summarise"):
        found[task] = _size(client.post(f"/documents/{task}", json={"texts": [". ".join(texts)]}))
    sent = client.post("/uploads", files={"files": ("tide.txt", b"CHAPTER I\n\nThe tide came in.")})
    word = f"upload:{sent.raise_for_status().json()['files'][0]['id']}"
    found["plan"] = (
        client.post("/books/plan", json={"file": word}).raise_for_status().json()["words"]
    )
    found["job"] = _done(client, {"kind": "book", "arguments": {"file": word}})
    found["page"] = _size(client.get("/", headers={"Accept": "text/html"}))
    found["health"] = client.get("/health").status_code
    return found


def _size(answer: httpx.Response) -> int:
    return len(answer.raise_for_status().content)


def _done(client: httpx.Client, asked: dict[str, Any]) -> str:
    job = client.post("/jobs", json=asked).raise_for_status().json()
    until = time.monotonic() + 120
    while job["state"] in ("queued", "running") and time.monotonic() < until:
        time.sleep(0.2)
        job = client.get(f"/jobs/{job['id']}").json()
    return str(job["state"])


def main() -> None:
    """The walk, in the folder that was named."""
    home = Path(sys.argv[1])
    here = Path(__file__).resolve().parent
    watched = {
        "CUT_OFF_LIST": str(home / "attempts.txt"),
        "PYTHONPATH": f"{here}{os.pathsep}{here.parents[2]}",
    }
    out = reachable()
    with running(home, environment=watched) as server:
        found = walk(server)
    print(json.dumps({**found, "a way out": out}))


if __name__ == "__main__":
    main()
