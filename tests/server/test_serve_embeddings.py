"""Embeddings and models over HTTP: OpenAI's own client, many clients, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from anyrig.documents.embed import Embedder
from anyrig.documents.model import find
from anyrig.documents.tokenizer import open_tokenizer
from anyrig.errors import OverloadedError
from anyrig.server.routes.embeddings import shorten_vector, write_response
from anyrig.server.waiting import ClientDisconnected, wait_for_all
from tests.documents.test_embed import on_cpu
from tests.server.conftest import Server, Start
from tests.waiting import wait_until

openai = pytest.importorskip("openai")

ALIKE = 0.9999
"""The least cosine: a server computes in half numbers where the device does so quickly."""
TEXTS = ["The sea is calm tonight.", "A small green frog sat on a log.", "Stocks fell sharply."]
URL = "/v1/embeddings"


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none needed", max_retries=0) as made:
        yield made


@lru_cache(maxsize=1)
def offline(*texts: str) -> Any:
    """The same texts without a server."""
    model = find("minilm", models=Path())
    with Embedder(model, placed=on_cpu(model), environment=os.environ, here=True) as made:
        return made.matrix(texts)


def cosines(one: Any, other: Any) -> Any:
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    sizes = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / sizes


# ---------------------------------------------------------------- the official client


@pytest.mark.parametrize("form", ["default", "float", "base64"])
def test_the_official_client_gets_the_vectors_that_are_made_offline(client: Any, form: str) -> None:
    more = {} if form == "default" else {"encoding_format": form}
    answer = client.embeddings.create(model="minilm", input=TEXTS, **more)
    vectors = [one.embedding for one in answer.data]
    if form == "base64":
        vectors = [np.frombuffer(base64.b64decode(one), "<f4") for one in vectors]
    assert [one.index for one in answer.data] == [0, 1, 2]
    assert cosines(vectors, offline(*TEXTS)).min() > ALIKE
    assert (answer.object, answer.model) == ("list", "minilm")


def test_one_text_is_not_a_list_of_letters(client: Any) -> None:
    answer = client.embeddings.create(model="minilm", input=TEXTS[1])
    assert len(answer.data) == 1
    assert cosines([answer.data[0].embedding], offline(*TEXTS)[1:2]).min() > ALIKE


def test_fewer_dimensions_are_the_first_ones_of_length_one(client: Any) -> None:
    answer = client.embeddings.create(model="minilm", input=TEXTS[0], dimensions=100)
    vector = np.array(answer.data[0].embedding)
    both = client.embeddings.create(model="minilm", input=TEXTS[0])
    whole = np.array(both.data[0].embedding)[:100]
    assert vector.shape == (100,)
    np.testing.assert_allclose(vector, whole / np.linalg.norm(whole), atol=1e-5)


def test_tokens_stand_for_their_text(client: Any) -> None:
    tokenizer = _tokenizer()
    rows = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    many = client.embeddings.create(model="minilm", input=rows)
    assert cosines([one.embedding for one in many.data], offline(*TEXTS)).min() > ALIKE
    assert many.usage.prompt_tokens == sum(map(len, rows))
    with_ends = tokenizer.encode(TEXTS[2]).ids
    one = client.embeddings.create(model="minilm", input=with_ends)
    assert cosines([one.data[0].embedding], offline(*TEXTS)[2:]).min() > ALIKE


def test_usage_counts_the_model_s_own_tokens(client: Any) -> None:
    tokenizer = _tokenizer()
    texts = [*TEXTS, "word " * 2000]  # longer than the model takes at once
    counted = sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts)
    usage = client.embeddings.create(model="minilm", input=texts).usage
    assert (usage.prompt_tokens, usage.total_tokens) == (counted, counted)
    assert counted > 2000


def _tokenizer() -> Any:
    file = find("minilm", models=Path()).tokenizer
    assert file is not None
    made = open_tokenizer(file)
    made.no_truncation()
    made.no_padding()
    return made


@pytest.mark.parametrize("name", ["text-embedding-3-small", "text-embedding-ada-002"])
def test_openai_s_names_are_answered_by_the_default_and_that_is_said(
    client: Any, name: str
) -> None:
    raw = client.embeddings.with_raw_response.create(model=name, input=TEXTS[0], user="someone")
    assert raw.headers["x-anyrig-model"] == "minilm"
    assert name in raw.headers["x-anyrig-note"]
    assert raw.headers["x-anyrig-ignored"] == "user"
    assert len(raw.parse().data[0].embedding) == 384


def test_a_wrong_model_is_the_client_s_not_found_error(client: Any) -> None:
    with pytest.raises(openai.NotFoundError, match=r"minilm.*hashing"):
        client.embeddings.create(model="no-such-model", input="x")


# ---------------------------------------------------------------- models


def test_models_of_all_kinds_are_listed(client: Any) -> None:
    found = {one.id: one for one in client.models.list()}
    kinds = {one.kind for one in found.values()}
    assert kinds == {"speech", "embedding", "transcription"}
    assert found["minilm"].details["dimension"] == 384
    assert found["tone"].kind == "speech"
    assert client.models.retrieve("hashing").details["dimension"] == 256
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("owner/nothing")


# ---------------------------------------------------------------- many at once


def test_64_clients_at_once_get_their_own_vectors_in_order(server: Server) -> None:
    words = (Path(__file__).parent.parent / "texts" / "alice.txt").read_text().split()
    work = []
    for number in range(64):
        count = 1 if number % 3 else 4 + number % 5
        size = 5 if number % 2 else 60
        begins = [(number * 997 + n * 101) % (len(words) - size) for n in range(count)]
        work.append([f"{number} {' '.join(words[start : start + size])}" for start in begins])

    async def ask(client: httpx.AsyncClient, number: int) -> list[list[float]]:
        encoding = "base64" if number % 2 else "float"
        body = {"model": "minilm", "input": work[number], "encoding_format": encoding}
        answer = await client.post(URL, json=body)
        assert answer.status_code == 200, answer.text
        rows = [one["embedding"] for one in answer.json()["data"]]
        if encoding == "float":
            return rows
        return [np.frombuffer(base64.b64decode(row), "<f4").tolist() for row in rows]

    async def all_at_once() -> list[list[list[float]]]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=300, limits=limits) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(64)))

    made = asyncio.run(all_at_once())
    assert [len(one) for one in made] == [len(one) for one in work]
    wanted = offline(*(text for texts in work for text in texts))
    assert cosines([row for one in made for row in one], wanted).min() > ALIKE


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A folder of models: one that knows fewer tokens than its tokenizer has, and a whole one."""
    from tests.documents.engines.toy import encoder, sentence_transformer

    encoder(tmp_path / "models" / "poisonable", "bert", vocab_size=60)
    sentence_transformer(tmp_path / "models" / "whole")
    sentence_transformer(tmp_path / "elsewhere")
    return tmp_path / "models"


def test_a_poisoned_request_fails_alone(start: Start, folders: Path) -> None:
    server = start("--no-page", environment={"ANYRIG_SERVER_MODELS": str(folders)})

    def ask(text: str) -> httpx.Response:
        return server.client.post(URL, json={"model": "poisonable", "input": [text, "the house"]})

    answers: dict[int, httpx.Response] = {}

    def one(number: int) -> None:
        text = "777 999" if number == 5 else f"the cat sleeps under {'the ' * number} stone"
        answers[number] = ask(text)

    assert ask("the old dog").status_code == 200  # loaded: so that the others go together
    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number for number, one in answers.items() if one.status_code != 200} == {5}
    assert answers[5].status_code == 422
    assert answers[5].headers["content-type"] == "application/problem+json"
    assert answers[5].json()["hint"]
    assert ask("the old dog").status_code == 200


# ---------------------------------------------------------------- folders of models


def test_only_folders_that_are_named_in_the_settings_hold_models(
    start: Start, folders: Path
) -> None:
    server = start("--no-page", environment={"ANYRIG_SERVER_MODELS": str(folders)})
    listed = {one["id"] for one in server.client.get("/v1/models").json()["data"]}
    assert {"whole", "poisonable"} <= listed
    assert "elsewhere" not in listed
    answer = server.client.post(URL, json={"model": "whole", "input": "the cat"})
    assert len(answer.json()["data"][0]["embedding"]) == 32
    for name in ("elsewhere", "../elsewhere", str(folders.parent / "elsewhere"), str(folders),
                 "whole/../../elsewhere", "/etc", "~", "owner/name"):  # fmt: skip
        refused = server.client.post(URL, json={"model": name, "input": "the cat"})
        assert refused.status_code == 404, name
        assert "minilm" in refused.json()["hint"]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"input": ""}, 400),
        ({"input": []}, 400),
        ({"input": ["a", ""]}, 400),
        ({"input": [[]]}, 400),
        ({"input": [[101], []]}, 400),
        ({"input": [101, 102]}, 400),
        ({"input": [99_999]}, 400),
        ({"input": [[5, 99_999]]}, 400),
        ({"input": "a", "dimensions": 385}, 400),
        ({"input": "a", "dimensions": 0}, 422),
        ({"input": "a", "encoding_format": "int8"}, 422),
        ({"input": ["a", 5]}, 422),
        ({"input": [1.5]}, 422),
        ({"input": [-1]}, 422),
        ({"input": [True]}, 422),
        ({"input": None}, 422),
        ({"input": "a", "use": "other"}, 422),
        ({}, 422),
        ([], 422),
        ({"input": "a", "model": "x" * 501}, 422),
        ({"input": "a", "model": "ghost\u00e9\u4e2d"}, 404),
        ({"input": ["a"] * 2049}, 413),
        ({"input": "a" * 200_001}, 413),
        ({"input": [5], "model": "hashing"}, 400),
    ],
)
def test_what_cannot_be_embedded_is_a_problem(server: Server, body: Any, status: int) -> None:
    answer = server.client.post(URL, json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["title"]
    assert told["hint"]
    assert told["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b'{"input": "\\ud800"}', b"\xff\xfe", b"[" * 5000])
def test_what_is_no_json_is_a_problem(server: Server, body: bytes) -> None:
    kind = {"content-type": "application/json"}
    answer = server.client.post(URL, content=body, headers=kind)
    assert answer.status_code in (400, 422)
    plain = server.client.post(
        URL, content=b'{"input":"a"}', headers={"content-type": "text/plain"}
    )
    assert plain.status_code == 415


def test_odd_texts_have_vectors(server: Server) -> None:
    texts = [" ", "\n", "\x00", "\u202e", "\U0001f600" * 50, "e\u0301", "x" * 10_000]
    answer = server.client.post(URL, json={"input": texts})
    vectors = np.array([one["embedding"] for one in answer.json()["data"]])
    assert vectors.shape == (len(texts), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


def test_a_full_queue_is_told_to_come_again(start: Start) -> None:
    limits = {"ANYRIG_SERVER_QUEUE": "20", "ANYRIG_SERVER_TEXTS": "20"}
    server = start("--no-cache", environment=limits)
    assert server.client.post(URL, json={"input": "a"}).status_code == 200
    answers: list[httpx.Response] = []

    def ask(number: int) -> None:
        body = {"input": [f"{number} {n} " + "some words " * 120 for n in range(20)]}
        answers.append(httpx.post(server.url + URL, json=body, timeout=120))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.status_code for one in answers} == {200, 429}
    for one in answers:
        if one.status_code == 429:
            assert int(one.headers["retry-after"]) > 0
    assert server.client.post(URL, json={"input": ["a"] * 21}).status_code == 413


def test_a_client_that_leaves_takes_its_texts_along(start: Start) -> None:
    server = start("--no-cache", "--workers-per-device", "1")
    assert server.client.post(URL, json={"input": "a"}).status_code == 200
    host, port = server.url.removeprefix("http://").split(":")
    texts = [f"{n} " + "many words of a long text " * 80 for n in range(1000)]
    request = httpx.Request("POST", server.url + URL, json={"input": texts, "lane": "bulk"})
    with socket.create_connection((host, int(port))) as line:
        head = f"POST {URL} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        line.sendall(f"{head}Content-Length: {len(request.content)}\r\n\r\n".encode())
        line.sendall(request.content)
        wait_until(lambda: _waiting(server) > 500)
    wait_until(lambda: _waiting(server) == 0)
    assert server.client.post(URL, json={"input": "a"}).status_code == 200
    done = _figure(server, "anyrig_texts_embedded_total")
    assert done < 500, "of 1,000"


def _waiting(server: Server) -> float:
    return _figure(server, "anyrig_queue")


def _figure(server: Server, name: str) -> float:
    lines = server.client.get("/metrics").text.splitlines()
    return sum(float(one.rsplit(" ", 1)[1]) for one in lines if one.startswith(name + "{"))


# ---------------------------------------------------------------- pieces


def test_an_answer_is_written_with_every_digit_that_counts() -> None:
    vectors = list(np.random.default_rng(3).normal(size=(5, 40)).astype(np.float32))
    vectors.append(np.array([0, -0.0, 1, 1e-30, 3.4e38] * 8, np.float32))
    import json

    told = json.loads(write_response(vectors, encoding="float", model='a"b', num_tokens=7))
    got = np.array([one["embedding"] for one in told["data"]], np.float32)
    np.testing.assert_array_equal(got, np.stack(vectors))
    assert (told["model"], told["usage"]["total_tokens"]) == ('a"b', 7)


def test_nothing_cannot_be_made_long() -> None:
    zeros = np.array([0, 0, 3, 4], np.float32)
    np.testing.assert_array_equal(shorten_vector(zeros, 2), [0, 0])
    np.testing.assert_allclose(shorten_vector(zeros, 3), [0, 0, 1])
    assert shorten_vector(zeros, 4) is zeros


class _Line:
    """A request whose client leaves when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await self.left.wait()
        return {"type": "http.disconnect"}


def test_waiting_ends_with_the_client_or_the_deadline_and_cancels_the_rest() -> None:
    async def leave() -> None:
        line, futures = _Line(), [Future[int]() for _ in range(3)]
        futures[0].set_result(1)
        line.left.set()
        with pytest.raises(ClientDisconnected):
            await wait_for_all(futures, line, deadline_s=60)  # type: ignore[arg-type]
        assert [one.cancelled() for one in futures] == [False, True, True]
        late = [Future[int]()]
        with pytest.raises(OverloadedError):
            await wait_for_all(late, _Line(), deadline_s=0.01)  # type: ignore[arg-type]
        assert late[0].cancelled()
        assert await wait_for_all([], _Line(), deadline_s=1) == []  # type: ignore[arg-type]

    asyncio.run(leave())
