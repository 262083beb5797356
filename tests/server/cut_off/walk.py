"""Starts a server, asks it for what works without any set-up, and prints what came back as JSON.

python -m tests.server.cut_off.walk FOLDER
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from anyrig.server.page.main import PAGES
from tests.server.conftest import Server, running
from tests.server.documents_files import LETTER, RECIPE, scan, send

SENTENCE = "The train leaves the harbour in the morning."
NAMES = "Maria Jones moved to Paris on 4 May 2026. In Paris she met Peter Black."
_TEXTS = ["the tide came in", "the water rose", "a list of prices"]
_LABELS = ["letter about a flat", "recipe"]
_RUN = """[task]
kind = "language"
text = "{text}"
context = 32
model = {{ preset = "nano" }}
[train]
batch = 4
steps = 2
"""
_LONGEST_S = 180.0
Found = dict[str, Any]


def reachable() -> bool:
    """Whether there is a way out: asked of the kernel, nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return False
    return True


# -- what is asked for -----------------------------------------------------------------------------


def speech(server: Server) -> Found:
    """In two formats, as a stream, and heard again."""
    client = server.client
    found: Found = {}
    said = {"input": SENTENCE, "voice": "alloy", "model": "tts-1"}
    sound = b""
    for kind in ("mp3", "wav"):
        answer = client.post("/v1/audio/speech", json={**said, "response_format": kind})
        sound = answer.raise_for_status().content
        found[kind] = len(sound)
    found["stream"] = _streamed(server)
    form = {"file": ("said.wav", sound)}
    heard = client.post("/v1/audio/transcriptions", files=form, data={"model": "whisper-1"})
    found["heard"] = heard.raise_for_status().json()["text"]
    kept = send(server, talk_wav=sound)["talk.wav"]
    found["transcribe job"] = _done(client, "transcribe", file=kept)
    found["batch job"] = _done(client, "batch", lines=[SENTENCE])
    return found


def documents(server: Server) -> Found:
    """Every task on documents with its own defaults: no model, no engine, no method is named."""
    client = server.client
    answer = client.post("/v1/embeddings", json={"input": _TEXTS}).raise_for_status()
    found: Found = {"vectors": [len(one["embedding"]) for one in answer.json()["data"]]}
    sent = send(server, letter_txt=LETTER, recipe_txt=RECIPE, scan_png=scan())
    letter, recipe = sent["letter.txt"], sent["recipe.txt"]

    def ask(task: str, **body: Any) -> Any:
        return client.post(f"/documents/{task}", json=body).raise_for_status().json()

    def first(told: Any) -> Any:
        return told["results"][0]["result"]

    found["embed"] = len(first(ask("embed", files=[letter]))["passages"][0]["vector"])
    found["summary"] = first(ask("summarise", files=[recipe]))["summaries"][0]["text"]
    found["class"] = first(ask("classify", files=[recipe], labels=_LABELS))["label"]
    names = first(ask("entities", files=[letter], texts=[NAMES]))["entities"]
    found["entities"] = [one["text"] for one in names]
    found["analysed"] = ask("analyse", files=[letter, recipe])["num_documents"]
    report = client.post("/documents/analyse", json={"files": [letter], "format": "html"})
    found["report"] = _size(report)
    found["similar"] = ask("similar", to_text="how a cake is baked", files=[letter, recipe])[
        "similar"
    ][0]["name"]
    found["ocr"] = first(ask("ocr", files=[sent["scan.png"]]))["text"]
    found["index job"] = _done(client, "index", files=[letter, recipe], index="post")
    hits = ask("search", index="post", question="who raised the rent?")["hits"]
    found["search"] = hits[0]["name"]
    return found


def books_and_runs(server: Server) -> Found:
    """The longest work: a book, a benchmark, a short run of training."""
    client = server.client
    sent = send(server, tide_txt="CHAPTER I\n\nThe tide came in.", story_txt=LETTER * 60)
    plan = client.post("/books/plan", json={"file": sent["tide.txt"]}).raise_for_status().json()
    run = send(server, run_toml=_RUN.format(text=sent["story.txt"]))["run.toml"]
    return {
        "plan": plan["words"],
        "book job": _done(client, "book", file=sent["tide.txt"]),
        "bench job": _done(client, "bench", quick=True),
        "train job": _done(client, "train", file=run, device="cpu"),
    }


def lists(server: Server) -> Found:
    """Everything that can be read without naming anything, and the pages."""
    client = server.client
    described = client.get("/openapi.json").raise_for_status().json()["paths"]
    bare = [path for path, methods in described.items() if "get" in methods and "{" not in path]
    told = {path: client.get(path).status_code for path in [*bare, "/docs"]}
    html = {"Accept": "text/html"}
    return {
        "lists": told,
        "models": [one["id"] for one in client.get("/v1/models").json()["data"]],
        "pages": {page.path: _size(client.get(page.path, headers=html)) for page in PAGES},
    }


WALK: tuple[Callable[[Server], Found], ...] = (speech, documents, books_and_runs, lists)


def _streamed(server: Server) -> int:
    url, count = server.url.replace("http", "ws", 1), 0
    with connect(f"{url}/stream", compression=None, proxy=None) as wire:
        wire.send(json.dumps({"text": SENTENCE}))
        try:
            while True:
                piece = wire.recv(timeout=60)
                count += len(piece) if isinstance(piece, bytes) else 0
        except ConnectionClosed:
            return count


def _size(answer: httpx.Response) -> int:
    return len(answer.raise_for_status().content)


def _done(client: httpx.Client, kind: str, **arguments: Any) -> str:
    """The state that a job ends in; why, where that is another than done."""
    asked = {"kind": kind, "arguments": arguments}
    job = client.post("/jobs", json=asked).raise_for_status().json()
    until = time.monotonic() + _LONGEST_S
    while job["state"] in ("queued", "running") and time.monotonic() < until:
        time.sleep(0.2)
        job = client.get(f"/jobs/{job['id']}").json()
    return str(job["state"]) if not job.get("error") else f"{job['state']}: {job['error']}"


# -- the server ------------------------------------------------------------------------------------


@contextmanager
def watched(home: Path) -> Iterator[Server]:
    """A server that has every attempt to leave written down, in `attempts.txt`."""
    here = Path(__file__).resolve().parent
    more = {
        "CUT_OFF_LIST": str(home / "attempts.txt"),
        "PYTHONPATH": f"{here}{os.pathsep}{here.parents[2]}",
    }
    with running(home, environment=more) as server:
        server.client.timeout = httpx.Timeout(_LONGEST_S)
        yield server


def main() -> None:
    found: Found = {"a way out": reachable()}
    with watched(Path(sys.argv[1])) as server:
        for part in WALK:
            found |= part(server)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
