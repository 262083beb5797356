"""A mixed load for a server: clients that use everything it offers, the same in every run.

They speak (whole, as events, over the websocket, some disconnect early), embed, run every document
task as JSON and as a form, transcribe recordings and read images, search an index, plan books,
upload and delete, follow jobs of all common kinds to their end, open pages with their websocket,
read health, metrics and devices, and send every kind of invalid request.
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

Task = tuple[str, dict[str, Any]]
Request = Callable[[httpx.Client, random.Random], None]
_JOB_TIMEOUT_S = 300.0
_JOBS = ("book", "batch", "index", "transcribe")
_PAGES = ("/", "/speak", "/books", "/documents", "/training", "/jobs", "/cluster")
_WORDS = (
    "the old harbour lay under a grey sky while fishermen mended their nets and counted what was"
    " left of a long summer that nobody in the village would forget"
).split()
_TASKS: list[Task] = [
    ("embed", {}), ("entities", {"engine": "grammar"}), ("entities", {}), ("summarise", {}),
    ("classify", {"labels": ["a letter", "a bill", "a recipe"]}), ("analyse", {}),
    ("analyse", {"format": "html"}),
]  # fmt: skip
_READS = (
    "/health", "/health/live", "/metrics", "/metrics/gpu", "/devices", "/config", "/v1/models",
    "/bench", "/runs", "/lexicon", "/documents/indexes", "/documents/indexes/load/files",
    "/documents/classifiers", "/uploads", "/jobs", "/openapi.json",
)  # fmt: skip
_INVALID: list[tuple[str, str, Any, tuple[int, ...]]] = [
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


class MixedLoad:
    """Clients that send requests of all kinds at once.

    Args:
        url: of the server.
        num_clients: how many send at the same time.
    """

    def __init__(self, url: str, num_clients: int) -> None:
        self.url, self._num_clients = url, num_clients
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._rng = random.Random(20261115)
        self._lock = threading.Lock()
        self._recording = self._image = b""
        weights: list[tuple[Request, int]] = [
            (self._speech, 14), (self._speech_events, 8), (self._speech_socket, 8),
            (self._disconnect, 4), (self._embed, 16), (self._task, 12), (self._task_form, 6),
            (self._ocr, 4), (self._transcribe, 4), (self._search, 6), (self._plan_book, 4),
            (self._upload, 6), (self._job, 4), (self._page_with_socket, 10), (self._page, 2),
            (self._read, 12), (self._invalid, 10),
        ]  # fmt: skip
        self._requests = [request for request, weight in weights for _ in range(weight)]

    def prepare(self) -> None:
        """Make what requests need: a recording, an image, an index. And run each job and task
        once, so that every worker process exists before memory is first measured.
        """
        with self._client() as client:
            text = "The tide came in at noon, and nobody was at the harbour."
            body = _speech_body(text, response_format="wav")
            answer = self._expect(client.post("/v1/audio/speech", json=body), 200)
            self._recording = answer.content
            self._image = _draw_line("The boiler was mended on Tuesday.")
            notes = " ".join(_sentence(self._rng) for _ in range(40)).encode()
            arguments = {"files": [self._send_file(client, "notes.txt", notes)], "index": "load"}
            self._wait_for_job(client, self._start_job(client, "index", arguments))
            for kind in _JOBS:
                self._run_job(client, kind, self._rng, cancel=False)
            for task in _TASKS:
                self._task_form(client, self._rng, task)
                self._task(client, self._rng, task)
            for request in (self._ocr, self._transcribe, self._search, self._plan_book,
                            self._embed):  # fmt: skip
                request(client, self._rng)

    def send(self, count: int) -> None:
        """So many requests, from all clients together."""
        pairs = [(self._rng.choice(self._requests), self._rng.random()) for _ in range(count)]
        remaining = iter(pairs)

        def run_client() -> None:
            with self._client() as client:
                while True:
                    with self._lock:
                        pair = next(remaining, None)
                    if pair is None:
                        return
                    self._send_one(client, *pair)

        threads = [threading.Thread(target=run_client) for _ in range(self._num_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=_JOB_TIMEOUT_S, trust_env=False)

    def _send_one(self, client: httpx.Client, request: Request, seed: float) -> None:
        name = getattr(request, "__name__", "").strip("_")
        try:
            request(client, random.Random(seed))
        except Exception as error:  # noqa: BLE001 - printed at the end
            with self._lock:
                self.failures.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        with self._lock:
            self.counts[name] += 1

    def _expect(self, answer: httpx.Response, *statuses: int) -> httpx.Response:
        if answer.status_code not in statuses:
            raise ValueError(f"{answer.status_code} {answer.request.url.path}: {answer.text[:200]}")
        return answer

    # -- speech ------------------------------------------------------------------------------------

    def _speech(self, client: httpx.Client, rng: random.Random) -> None:
        audio_format = rng.choice(["mp3", "opus", "aac", "flac", "wav", "pcm"])
        body = _speech_body(_sentence(rng), response_format=audio_format)
        self._expect(client.post("/v1/audio/speech", json=body), 200)

    def _speech_events(self, client: httpx.Client, rng: random.Random) -> None:
        body = _speech_body(_sentence(rng), stream_format="sse")
        with client.stream("POST", "/v1/audio/speech", json=body) as answer:
            last = [line for line in answer.iter_lines() if line.startswith("data:")][-1]
        if "speech.audio.done" not in last:
            raise ValueError(last[:200])

    def _speech_socket(self, client: httpx.Client, rng: random.Random) -> None:
        with connect(f"{self._socket_url}/stream", max_size=None) as socket:
            socket.send(json.dumps({"text": _sentence(rng)}))
            frames = [frame for frame in socket if isinstance(frame, bytes)]
        if not frames:
            raise ValueError("no audio")

    def _disconnect(self, client: httpx.Client, rng: random.Random) -> None:
        text = " ".join(_sentence(rng) for _ in range(6))
        body = _speech_body(text, response_format="pcm")
        with (
            self._client() as own,
            own.stream("POST", "/v1/audio/speech", json=body) as answer,
        ):
            next(answer.iter_bytes())

    def _transcribe(self, client: httpx.Client, rng: random.Random) -> None:
        response_format = rng.choice(["json", "text", "srt", "verbose_json"])
        form = {"model": "whisper-1", "language": "en", "response_format": response_format}
        files = {"file": ("talk.wav", self._recording, "audio/wav")}
        answer = client.post("/v1/audio/transcriptions", data=form, files=files)
        text = self._expect(answer, 200).text
        if "harbo" not in text.lower():
            raise ValueError(text[:200])

    # -- documents ---------------------------------------------------------------------------------

    def _embed(self, client: httpx.Client, rng: random.Random) -> None:
        texts = [_sentence(rng) for _ in range(rng.choice([1, 1, 4, 16]))]
        form = rng.choice(["float", "base64"])
        body = {"model": "text-embedding-3-small", "input": texts, "encoding_format": form}
        self._expect(client.post("/v1/embeddings", json=body), 200)

    def _task(self, client: httpx.Client, rng: random.Random, task: Task | None = None) -> None:
        name, options = task or rng.choice(_TASKS)
        texts = [_sentence(rng) for _ in range(3)]
        self._expect(client.post(f"/documents/{name}", json={"texts": texts, **options}), 200)

    def _task_form(
        self, client: httpx.Client, rng: random.Random, task: Task | None = None
    ) -> None:
        name, options = task or rng.choice(_TASKS)
        files = [("files", (f"{number}.txt", _sentence(rng).encode())) for number in range(2)]
        self._expect(client.post(f"/documents/{name}/upload", data=options, files=files), 200)

    def _ocr(self, client: httpx.Client, rng: random.Random) -> None:
        form = rng.choice(["text", "json", "pdf"])
        files = [("files", ("page.png", self._image))]
        answer = client.post("/documents/ocr/upload", data={"format": form}, files=files)
        self._expect(answer, 200)
        if form == "text" and "boiler" not in answer.text:
            raise ValueError(answer.text[:200])

    def _search(self, client: httpx.Client, rng: random.Random) -> None:
        body: dict[str, Any] = {"index": "load", "limit": 5}
        path = rng.choice(["search", "search/batch", "similar"])
        if path == "search":
            body |= {"question": _sentence(rng), "mode": rng.choice(["hybrid", "keywords"])}
        elif path == "similar":
            body["to_text"] = _sentence(rng)
        else:
            body["questions"] = [_sentence(rng), _sentence(rng)]
        self._expect(client.post(f"/documents/{path}", json=body), 200)

    # -- files and jobs ----------------------------------------------------------------------------

    def _send_file(self, client: httpx.Client, name: str, data: bytes) -> str:
        answer = self._expect(client.post("/uploads", files=[("files", (name, data))]), 201)
        return f"upload:{answer.json()['files'][0]['id']}"

    def _upload(self, client: httpx.Client, rng: random.Random) -> None:
        data = " ".join(_sentence(rng) for _ in range(rng.choice([2, 200]))).encode()
        name = self._send_file(client, "notes.txt", data).removeprefix("upload:")
        self._expect(client.get("/uploads"), 200)
        self._expect(client.get(f"/uploads/{name}/content", headers={"Range": "bytes=0-9"}), 206)
        self._expect(client.delete(f"/uploads/{name}"), 200)

    def _plan_book(self, client: httpx.Client, rng: random.Random) -> None:
        file = self._send_file(client, "book.txt", _short_book(rng))
        plan = self._expect(client.post("/books/plan", json={"file": file}), 200).json()
        if not plan["chapters"]:
            raise ValueError("the book has no chapters")
        name = file.removeprefix("upload:")
        self._expect(client.get(f"/books/cover/{name}"), 404)  # a plain text has none
        self._expect(client.delete(f"/uploads/{name}"), 200)

    def _job(self, client: httpx.Client, rng: random.Random) -> None:
        self._run_job(client, rng.choice(_JOBS), rng, cancel=rng.random() < 0.2)

    def _run_job(
        self, client: httpx.Client, kind: str, rng: random.Random, *, cancel: bool
    ) -> None:
        """A job until its files are there, or until it is cancelled."""
        files: list[str] = []
        arguments: dict[str, Any] = {"lines": [_sentence(rng), _sentence(rng)], "format": "mp3"}
        if kind == "transcribe":
            files = [self._send_file(client, "talk.wav", self._recording)]
        elif kind != "batch":
            files = [self._send_file(client, "book.txt", _short_book(rng))]
        if files:
            arguments = {"file": files[0]}
        if kind == "index":
            arguments = {"files": files, "index": "load"}
        job = self._start_job(client, kind, arguments)
        self._expect(client.get("/jobs"), 200)
        if cancel:
            self._expect(client.post(f"/jobs/{job}/cancel"), 200, 409)
        status = self._wait_for_job(client, job)
        if status["state"] == "done":
            self._check_job(client, job, status, files)
        self._expect(client.delete(f"/jobs/{job}"), 200, 204)
        for file in files:
            self._expect(client.delete(f"/uploads/{file.removeprefix('upload:')}"), 200, 404)

    def _check_job(
        self, client: httpx.Client, job: str, status: dict[str, Any], files: list[str]
    ) -> None:
        if status["num_files"]:
            self._expect(client.get(f"/jobs/{job}/files/1"), 200)
        if status["kind"] == "book":
            self._expect(client.get(f"/jobs/{job}/chapters"), 200)
            self._expect(client.get(f"/jobs/{job}/chapters/1"), 200, 404)
        if status["kind"] == "index":
            body = {"files": files}
            self._expect(client.post("/documents/indexes/load/remove", json=body), 200)

    def _start_job(self, client: httpx.Client, kind: str, arguments: dict[str, Any]) -> str:
        body = {"kind": kind, "arguments": arguments}
        return str(self._expect(client.post("/jobs", json=body), 201).json()["id"])

    def _wait_for_job(self, client: httpx.Client, job: str) -> dict[str, Any]:
        """Follow the events of a job until it has ended."""
        with client.stream("GET", f"/jobs/{job}/events") as answer:
            for _ in answer.iter_lines():
                pass
        end = time.monotonic() + _JOB_TIMEOUT_S
        while True:
            status: dict[str, Any] = self._expect(client.get(f"/jobs/{job}"), 200).json()
            if status["state"] == "failed":
                raise ValueError(f"{status['kind']}: {status['error']}")
            if status["state"] in ("done", "cancelled"):
                return status
            if time.monotonic() > end:
                raise TimeoutError(f"{status['kind']} is {status['state']}")
            time.sleep(0.2)

    # -- pages and plain reads ---------------------------------------------------------------------

    def _page_with_socket(self, client: httpx.Client, rng: random.Random) -> None:
        """A page as a browser opens it: its HTML, then its websocket for a second or two."""
        path = rng.choice(_PAGES)
        page = self._expect(client.get(path, headers={"Accept": "text/html"}), 200).text
        found = re.search(r"client_id\W+([0-9a-f-]{36})", page)
        if found is None:
            raise ValueError(f"{path} has no client_id")
        tab = f"{rng.getrandbits(64):x}"
        query = {"EIO": "4", "transport": "websocket", "implicit_handshake": "true",
                 "client_id": found[1], "tab_id": tab, "document_id": tab,
                 "next_message_id": "0"}  # fmt: skip
        address = f"{self._socket_url}/_nicegui_ws/socket.io/?{urlencode(query)}"
        with connect(address, max_size=None) as socket:
            _keep_socket_open(socket, path, rng.choice([0.2, 1.0, 2.5]))

    def _page(self, client: httpx.Client, rng: random.Random) -> None:
        """A page without its websocket."""
        page = client.get(rng.choice(_PAGES), headers={"Accept": "text/html"})
        self._expect(page, 200)

    def _read(self, client: httpx.Client, rng: random.Random) -> None:
        self._expect(client.get(rng.choice(_READS)), 200)

    def _invalid(self, client: httpx.Client, rng: random.Random) -> None:
        method, path, body, status = rng.choice(_INVALID)
        self._expect(client.request(method, path, json=body), *status)

    @property
    def _socket_url(self) -> str:
        return self.url.replace("http", "ws", 1)


def _keep_socket_open(socket: Any, path: str, seconds: float) -> None:
    """Engine.IO: open, connect, and a pong for each ping."""
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


def _speech_body(text: str, **options: str) -> dict[str, str]:
    return {"model": "tts-1", "voice": "alloy", "input": text, **options}


def _sentence(rng: random.Random) -> str:
    words = [rng.choice(_WORDS) for _ in range(rng.randint(4, 14))]
    return " ".join(words).capitalize() + "."


def _short_book(rng: random.Random) -> bytes:
    parts = [f"CHAPTER {number}\n\n{_sentence(rng)} {_sentence(rng)}" for number in ("I", "II")]
    return "\n\n".join(parts).encode()


def _draw_line(text: str) -> bytes:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (900, 160), 255)
    ImageDraw.Draw(image).text((30, 50), text, 0, ImageFont.load_default(40))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
