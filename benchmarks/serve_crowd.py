"""Clients that ask a server for everything it does, in an order that is the same every time.

They speak (whole, as events, over the socket, some leave in the middle), embed, give every task on
documents as JSON and as forms, have recordings written down and pictures read, search an index,
plan books, upload and delete, begin jobs of all common kinds and follow them to their end, visit
the pages with the socket that a browser opens, look at health, figures and devices, and make every
kind of mistake.
"""

from __future__ import annotations

import io
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import httpx
from websockets.sync.client import connect

Kind = Callable[[httpx.Client, random.Random], None]
_JOB_S = 300.0
"""How long a job may take behind others."""
_JOBS = ("book", "batch", "index", "transcribe")
_PAGES = ("/", "/speak", "/books", "/documents", "/training", "/jobs", "/cluster")
_WORDS = (
    "the old harbour lay under a grey sky while fishermen mended their nets and counted what was"
    " left of a long summer that nobody in the village would forget"
).split()
_TASKS: list[tuple[str, dict[str, Any]]] = [
    ("embed", {}), ("entities", {"engine": "grammar"}), ("entities", {}), ("summarise", {}),
    ("classify", {"labels": ["a letter", "a bill", "a recipe"]}), ("analyse", {}),
    ("analyse", {"format": "html"}),
]  # fmt: skip
_LOOKS = (
    "/health", "/health/live", "/metrics", "/metrics/gpu", "/devices", "/config", "/v1/models",
    "/bench", "/runs", "/lexicon", "/documents/indexes", "/documents/indexes/crowd/files",
    "/documents/classifiers", "/uploads", "/jobs", "/openapi.json",
)  # fmt: skip
_MISTAKES: list[tuple[str, str, Any, tuple[int, ...]]] = [
    ("POST", "/v1/audio/speech", {"model": "tts-1", "input": ""}, (400, 422)),
    ("POST", "/v1/audio/speech", {"model": "no-such", "input": "x", "voice": "alloy"}, (400, 404)),
    ("POST", "/v1/embeddings", {"model": "no-such-model", "input": "x"}, (404,)),
    ("POST", "/v1/embeddings", {"input": 7}, (400, 422)),
    ("POST", "/documents/search", {"question": "rent", "index": "none-such"}, (400, 404, 422)),
    ("POST", "/documents/entities", {"files": ["upload:" + "0" * 32]}, (200, 400, 404)),
    ("PUT", "/devices/chosen", {"device": "quantum:7"}, (404,)),
    ("POST", "/jobs", {"kind": "no-such-kind"}, (422,)),
    ("GET", "/jobs/nothing-is-here", None, (404, 422)),
    ("GET", "/no/such/path", None, (404,)),
    ("DELETE", "/uploads/" + "0" * 32, None, (404,)),
]


class Crowd:
    """Some clients of one server.

    Args:
        url: of the server.
        clients: how many ask at once.
    """

    def __init__(self, url: str, clients: int) -> None:
        self.url, self._clients = url, clients
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._dice = random.Random(20261115)
        self._lock = threading.Lock()
        self._talk = self._picture = b""
        kinds: list[tuple[Kind, int]] = [
            (self._speech, 14), (self._events, 8), (self._stream, 8), (self._leaves, 4),
            (self._vectors, 16), (self._documents, 12), (self._forms, 6), (self._ocr, 4),
            (self._transcripts, 4), (self._search, 6), (self._plans, 4), (self._uploads, 6),
            (self._jobs, 4), (self._visits, 10), (self._glances, 2), (self._looks, 12),
            (self._mistakes, 10),
        ]  # fmt: skip
        self._kinds = [kind for kind, weight in kinds for _ in range(weight)]

    def prepare(self) -> None:
        """What requests need that is there before: a recording, a picture, an index. And each job
        and task once, so that no process begins later than memory is first looked at.
        """
        with self._client() as asks:
            said = "The tide came in at noon, and nobody was at the harbour."
            wish = {"model": "tts-1", "voice": "alloy", "response_format": "wav", "input": said}
            self._talk = self._expect(asks.post("/v1/audio/speech", json=wish), 200).content
            self._picture = _picture("The boiler was mended on Tuesday.")
            notes = ("notes.txt", " ".join(_text(self._dice) for _ in range(40)).encode())
            job = self._begun(asks, "index", {"files": [self._sent(asks, *notes)],
                                              "index": "crowd"})  # fmt: skip
            self._over(asks, job)
            for kind in _JOBS:
                self._job(asks, kind, self._dice, stops=False)
            for task, more in _TASKS:
                self._form(asks, task, more, self._dice)
                self._task(asks, task, more, self._dice)
            for one in (self._ocr, self._transcripts, self._search, self._plans, self._vectors):
                one(asks, self._dice)

    def workers(self) -> dict[int, str]:
        """What each worker process of the server is called, by its number."""
        with self._client() as asks:
            found = asks.get("/health").json()["worker_ids"]
        return {int(pid): name for name, _, pid in (one.rpartition(":") for one in found)}

    def send(self, count: int) -> None:
        """So many requests, from all clients."""
        left = iter([(self._dice.choice(self._kinds), self._dice.random()) for _ in range(count)])

        def client() -> None:
            with self._client() as asks:
                while True:
                    with self._lock:
                        one = next(left, None)
                    if one is None:
                        return
                    self._one(asks, *one)

        threads = [threading.Thread(target=client) for _ in range(self._clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=_JOB_S, trust_env=False)

    def _one(self, asks: httpx.Client, kind: Kind, seed: float) -> None:
        name = getattr(kind, "__name__", "").strip("_")
        try:
            kind(asks, random.Random(seed))
        except Exception as error:  # noqa: BLE001 - told at the end
            with self._lock:
                self.wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        with self._lock:
            self.done[name] += 1

    def _expect(self, answer: httpx.Response, *statuses: int) -> httpx.Response:
        if answer.status_code not in statuses:
            raise ValueError(f"{answer.status_code} {answer.request.url.path}: {answer.text[:200]}")
        return answer

    # -- speech ------------------------------------------------------------------------------------

    def _speech(self, asks: httpx.Client, dice: random.Random) -> None:
        form = dice.choice(["mp3", "opus", "aac", "flac", "wav", "pcm"])
        wish = {"model": "tts-1", "voice": "alloy", "input": _text(dice), "response_format": form}
        self._expect(asks.post("/v1/audio/speech", json=wish), 200)

    def _events(self, asks: httpx.Client, dice: random.Random) -> None:
        wish = {"model": "tts-1", "voice": "alloy", "input": _text(dice), "stream_format": "sse"}
        with asks.stream("POST", "/v1/audio/speech", json=wish) as answer:
            last = [line for line in answer.iter_lines() if line.startswith("data:")][-1]
        if "speech.audio.done" not in last:
            raise ValueError(last[:200])

    def _stream(self, asks: httpx.Client, dice: random.Random) -> None:
        with connect(f"{self._sockets}/stream", max_size=None) as socket:
            socket.send(json.dumps({"text": _text(dice)}))
            frames = [frame for frame in socket if isinstance(frame, bytes)]
        if not frames:
            raise ValueError("no sound came")

    def _leaves(self, asks: httpx.Client, dice: random.Random) -> None:
        text = " ".join(_text(dice) for _ in range(6))
        wish = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm"}
        with (
            self._client() as own,
            own.stream("POST", "/v1/audio/speech", json=wish) as answer,
        ):
            next(answer.iter_bytes())

    def _transcripts(self, asks: httpx.Client, dice: random.Random) -> None:
        written = dice.choice(["json", "text", "srt", "verbose_json"])
        form = {"model": "whisper-1", "language": "en", "response_format": written}
        files = {"file": ("talk.wav", self._talk, "audio/wav")}
        said = self._expect(asks.post("/v1/audio/transcriptions", data=form, files=files), 200).text
        if "harbo" not in said.lower():
            raise ValueError(said[:200])

    # -- documents ---------------------------------------------------------------------------------

    def _vectors(self, asks: httpx.Client, dice: random.Random) -> None:
        texts = [_text(dice) for _ in range(dice.choice([1, 1, 4, 16]))]
        form = dice.choice(["float", "base64"])
        body = {"model": "text-embedding-3-small", "input": texts, "encoding_format": form}
        self._expect(asks.post("/v1/embeddings", json=body), 200)

    def _documents(self, asks: httpx.Client, dice: random.Random) -> None:
        self._task(asks, *dice.choice(_TASKS), dice)

    def _task(
        self, asks: httpx.Client, task: str, more: dict[str, Any], dice: random.Random
    ) -> None:
        texts = [_text(dice) for _ in range(3)]
        self._expect(asks.post(f"/documents/{task}", json={"texts": texts, **more}), 200)

    def _forms(self, asks: httpx.Client, dice: random.Random) -> None:
        self._form(asks, *dice.choice(_TASKS), dice)

    def _form(
        self, asks: httpx.Client, task: str, more: dict[str, Any], dice: random.Random
    ) -> None:
        files = [("files", (f"{number}.txt", _text(dice).encode())) for number in range(2)]
        self._expect(asks.post(f"/documents/{task}/upload", data=more, files=files), 200)

    def _ocr(self, asks: httpx.Client, dice: random.Random) -> None:
        form = dice.choice(["text", "json", "pdf"])
        files = [("files", ("page.png", self._picture))]
        answer = asks.post("/documents/ocr/upload", data={"format": form}, files=files)
        self._expect(answer, 200)
        if form == "text" and "boiler" not in answer.text:
            raise ValueError(answer.text[:200])

    def _search(self, asks: httpx.Client, dice: random.Random) -> None:
        asked: dict[str, Any] = {"index": "crowd", "limit": 5}
        path = dice.choice(["search", "search/batch", "similar"])
        if path == "search":
            asked |= {"question": _text(dice), "mode": dice.choice(["hybrid", "keywords"])}
        elif path == "similar":
            asked["to_text"] = _text(dice)
        else:
            asked["questions"] = [_text(dice), _text(dice)]
        self._expect(asks.post(f"/documents/{path}", json=asked), 200)

    # -- files and jobs ----------------------------------------------------------------------------

    def _sent(self, asks: httpx.Client, name: str, data: bytes) -> str:
        answer = self._expect(asks.post("/uploads", files=[("files", (name, data))]), 201)
        return f"upload:{answer.json()['files'][0]['id']}"

    def _uploads(self, asks: httpx.Client, dice: random.Random) -> None:
        data = " ".join(_text(dice) for _ in range(dice.choice([2, 200]))).encode()
        name = self._sent(asks, "notes.txt", data).removeprefix("upload:")
        self._expect(asks.get("/uploads"), 200)
        self._expect(asks.get(f"/uploads/{name}/content", headers={"Range": "bytes=0-9"}), 206)
        self._expect(asks.delete(f"/uploads/{name}"), 200)

    def _plans(self, asks: httpx.Client, dice: random.Random) -> None:
        file = self._sent(asks, "book.txt", _book(dice))
        plan = self._expect(asks.post("/books/plan", json={"file": file}), 200).json()
        if not plan["chapters"]:
            raise ValueError("a book without chapters")
        name = file.removeprefix("upload:")
        self._expect(asks.get(f"/books/cover/{name}"), 404)  # a plain text has none
        self._expect(asks.delete(f"/uploads/{name}"), 200)

    def _jobs(self, asks: httpx.Client, dice: random.Random) -> None:
        self._job(asks, dice.choice(_JOBS), dice, stops=dice.random() < 0.2)

    def _job(self, asks: httpx.Client, kind: str, dice: random.Random, *, stops: bool) -> None:
        """A job from its beginning to its files, or stopped on the way."""
        files: list[str] = []
        arguments: dict[str, Any] = {"lines": [_text(dice), _text(dice)], "format": "mp3"}
        if kind != "batch":
            name, data = ("talk.wav", self._talk) if kind == "transcribe" else (
                "book.txt", _book(dice))  # fmt: skip
            files = [self._sent(asks, name, data)]
            arguments = {"files": files, "index": "crowd"} if kind == "index" else {
                "file": files[0]}  # fmt: skip
        job = self._begun(asks, kind, arguments)
        self._expect(asks.get("/jobs"), 200)
        if stops:
            self._expect(asks.post(f"/jobs/{job}/cancel"), 200, 409)
        told = self._over(asks, job)
        if told["state"] == "done" and told["num_files"]:
            self._expect(asks.get(f"/jobs/{job}/files/1"), 200)
        if told["state"] == "done" and kind == "book":
            self._expect(asks.get(f"/jobs/{job}/chapters"), 200)
            self._expect(asks.get(f"/jobs/{job}/chapters/1"), 200, 404)
        if told["state"] == "done" and kind == "index":
            removed = {"files": files}
            self._expect(asks.post("/documents/indexes/crowd/remove", json=removed), 200)
        self._expect(asks.delete(f"/jobs/{job}"), 200, 204)
        for file in files:
            self._expect(asks.delete(f"/uploads/{file.removeprefix('upload:')}"), 200, 404)

    def _begun(self, asks: httpx.Client, kind: str, arguments: dict[str, Any]) -> str:
        order = {"kind": kind, "arguments": arguments}
        return str(self._expect(asks.post("/jobs", json=order), 201).json()["id"])

    def _over(self, asks: httpx.Client, job: str) -> dict[str, Any]:
        """A job once it is over: its events are followed until then."""
        with asks.stream("GET", f"/jobs/{job}/events") as answer:
            for _ in answer.iter_lines():
                pass
        end = time.monotonic() + _JOB_S
        while True:
            told: dict[str, Any] = self._expect(asks.get(f"/jobs/{job}"), 200).json()
            if told["state"] == "failed":
                raise ValueError(f"{told['kind']}: {told['error']}")
            if told["state"] in ("done", "cancelled"):
                return told
            if time.monotonic() > end:
                raise TimeoutError(f"{told['kind']} is {told['state']}")
            time.sleep(0.2)

    # -- the page, and what is looked at -----------------------------------------------------------

    def _visits(self, asks: httpx.Client, dice: random.Random) -> None:
        """A page as a browser has it: its HTML, then its socket for a second or two."""
        path = dice.choice(_PAGES)
        page = self._expect(asks.get(path, headers={"Accept": "text/html"}), 200).text
        found = re.search(r"client_id\W+([0-9a-f-]{36})", page)
        if found is None:
            raise ValueError(f"{path} says no client_id")
        tab = f"{dice.getrandbits(64):x}"
        query = {"EIO": "4", "transport": "websocket", "implicit_handshake": "true",
                 "client_id": found[1], "tab_id": tab, "document_id": tab,
                 "next_message_id": "0"}  # fmt: skip
        address = f"{self._sockets}/_nicegui_ws/socket.io/?{urlencode(query)}"
        with connect(address, max_size=None) as socket:
            _spoken(socket, path, dice.choice([0.2, 1.0, 2.5]))

    def _glances(self, asks: httpx.Client, dice: random.Random) -> None:
        """A page by somebody who has no socket."""
        page = asks.get(dice.choice(_PAGES), headers={"Accept": "text/html"})
        self._expect(page, 200)

    def _looks(self, asks: httpx.Client, dice: random.Random) -> None:
        self._expect(asks.get(dice.choice(_LOOKS)), 200)

    def _mistakes(self, asks: httpx.Client, dice: random.Random) -> None:
        method, path, body, status = dice.choice(_MISTAKES)
        self._expect(asks.request(method, path, json=body), *status)

    @property
    def _sockets(self) -> str:
        return self.url.replace("http", "ws", 1)


def _spoken(socket: Any, path: str, seconds: float) -> None:
    """Engine.IO's words: open, connect, and a pong for each ping."""
    if not str(socket.recv(timeout=30)).startswith("0"):
        raise ValueError(f"the socket of {path} did not open")
    socket.send("40")
    if not str(socket.recv(timeout=30)).startswith("40"):
        raise ValueError(f"the socket of {path} was refused")
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            if socket.recv(timeout=left) == "2":
                socket.send("3")
        except TimeoutError:
            return


def _text(dice: random.Random) -> str:
    """A sentence, seldom the same twice."""
    words = [dice.choice(_WORDS) for _ in range(dice.randint(4, 14))]
    return " ".join(words).capitalize() + "."


def _book(dice: random.Random) -> bytes:
    """A short book in two chapters."""
    parts = [f"CHAPTER {number}\n\n{_text(dice)} {_text(dice)}" for number in ("I", "II")]
    return "\n\n".join(parts).encode()


def _picture(text: str) -> bytes:
    """A picture of a line."""
    from PIL import Image, ImageDraw, ImageFont

    made = Image.new("L", (900, 160), 255)
    ImageDraw.Draw(made).text((30, 50), text, 0, ImageFont.load_default(40))
    out = io.BytesIO()
    made.save(out, "PNG")
    return out.getvalue()
