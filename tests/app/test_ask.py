"""Questions are answered from an index with citations: by quoting, or by a language model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from anyrig import Rig
from anyrig.cli.main import main
from anyrig.errors import InvalidInputError, LanguageModelError, MissingWeightsError, render
from anyrig.events import Event, WarningEvent

Reply = Callable[[str, dict[str, Any]], tuple[int, bytes]]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "debian.md").write_text(
        "# History\n\nThe project was announced on 16 August 1993. Debian was founded by Ian"
        " Murdock, who was a student then. It had no release for some time.\n"
    )
    (docs / "faq.md").write_text(
        "# Questions\n\nWho may keep dogs in the house? Every tenant may keep two of them, and"
        " cats as well.\n"
    )
    (docs / "garden.md").write_text("Hedges are cut in June. Roses are cut back in spring.\n")
    with Rig() as rig:
        rig.index(docs, model="minilm", ocr="never", device="cpu")
        yield rig


@contextmanager
def serve(reply: Reply) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server with OpenAI's interface on this machine, and what it was asked."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            self._answer(body)

        def _answer(self, body: dict[str, Any]) -> None:
            status, data = reply(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with suppress(OSError):  # a client that did not wait
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()


def chat(text: object) -> Reply:
    def reply(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if path == "/v1/models":
            return 200, json.dumps({"data": [{"id": "small-model"}]}).encode()
        assert path == "/v1/chat/completions"
        return 200, json.dumps({"choices": [{"message": {"content": text}}]}).encode()

    return reply


def test_the_sentence_that_answers_is_quoted(rig: Rig) -> None:
    result = rig.ask("Who founded Debian?")
    assert "Debian was founded by Ian Murdock, who was a student then. [1]" in result.text
    assert (result.method, result.model) == ("extract", "minilm")
    assert result.passages[0].place.file.name == "debian.md"
    assert 1 in result.cited


def test_a_question_in_a_file_is_answered_by_what_follows_it(rig: Rig) -> None:
    result = rig.ask("Who may keep dogs in the house?")
    assert result.text.startswith("Every tenant may keep two of them, and cats as well. [1]")


def test_what_no_passage_answers_has_no_answer(rig: Rig) -> None:
    result = rig.ask("qwxzv blorptag")
    assert (result.text, result.method, result.passages) == ("", "none", ())
    with pytest.raises(InvalidInputError, match="nothing to answer"):
        rig.ask(" ")


def test_without_a_model_for_vectors_it_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MissingWeightsError("the model is gone", hint="Install it.")

    monkeypatch.setattr("anyrig.app.ask.find_index_model", refuse)
    events: list[Event] = []
    result = rig.ask("Who founded Debian?", on_event=events.append)
    assert "Ian Murdock" in result.text
    (note,) = result.notes
    assert "by words alone" in note
    assert "--llm URL" in render(note, "command")
    assert any(isinstance(one, WarningEvent) for one in events)


def test_a_language_model_answers_from_the_passages(rig: Rig) -> None:
    with serve(chat("<think>Hmm.</think>It was Ian Murdock [1].")) as (url, requests):
        result = rig.ask("Who founded Debian?", llm=url)
    assert (result.text, result.cited) == ("It was Ian Murdock [1].", (1,))
    assert (result.method, result.model) == ("llm", "small-model")
    (body,) = requests
    assert body["model"] == "small-model"
    prompt = body["messages"][1]["content"]
    assert "[1] debian.md" in prompt
    assert "founded by Ian Murdock" in prompt
    assert prompt.endswith("Question: Who founded Debian?")


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_the_url_of_a_server_may_have_its_path(rig: Rig, end: str) -> None:
    with serve(chat("Ian [1].")) as (url, requests):
        result = rig.ask("Who founded Debian?", llm=url + end, llm_model="mine")
    assert result.text == "Ian [1]."
    assert requests[0]["model"] == "mine"


def test_passages_that_it_was_not_given_are_not_cited(rig: Rig) -> None:
    with serve(chat("Ian [1, 9] did it [44].")) as (url, _):
        result = rig.ask("Who founded Debian?", llm=url)
    assert (result.text, result.cited) == ("Ian [1] did it .", (1,))
    assert "was not given" in result.notes[0]
    with serve(chat("Somebody.")) as (url, _):
        result = rig.ask("Who founded Debian?", llm=url)
    assert "cites no passage" in result.notes[0]


def test_a_server_that_is_not_there(rig: Rig) -> None:
    with pytest.raises(LanguageModelError, match="cannot reach a language model") as raised:
        rig.ask("Who founded Debian?", llm="http://127.0.0.1:9")
    assert "--llm URL" in render(raised.value.hint, "command")
    for url in ("ftp://127.0.0.1", "http://"):
        with pytest.raises(InvalidInputError, match="is not the URL of a server"):
            rig.ask("Who founded Debian?", llm=url)


def test_a_server_that_is_too_slow(rig: Rig) -> None:
    ended = threading.Event()

    def wait(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        ended.wait(20)
        return 200, b"{}"

    with serve(wait) as (url, _):
        with pytest.raises(LanguageModelError, match=r"did not answer within 0.2 seconds"):
            rig.ask("Who founded Debian?", llm=url, llm_model="m", llm_seconds=0.2)
        ended.set()


@pytest.mark.parametrize(
    ("status", "data", "problem"),
    [
        (200, b"<html>Welcome</html>", "did not answer with a JSON object"),
        (200, b"[1, 2]", "did not answer with a JSON object"),
        (200, b"{}", "gave no answer"),
        (200, b'{"choices": []}', "gave no answer"),
        (200, b'{"choices": [{"message": {"content": null}}]}', "gave no answer"),
        (200, b'{"choices": [{"message": {"content": "<think>I wonder"}}]}', "gave no answer"),
        (404, b'{"error": {"message": "model m not found"}}', "status 404: model m not found"),
        (500, b"oops", "status 500"),
        (200, b"x" * (5 << 20), "sent more than 4 MB"),
    ],
)
def test_a_server_that_answers_something_else(
    rig: Rig, status: int, data: bytes, problem: str
) -> None:
    with (
        serve(lambda path, body: (status, data)) as (url, _),
        pytest.raises(LanguageModelError, match=problem),
    ):
        rig.ask("Who founded Debian?", llm=url, llm_model="m")


def test_a_server_without_models(rig: Rig) -> None:
    with (
        serve(lambda path, body: (200, b'{"data": []}')) as (url, _),
        pytest.raises(LanguageModelError, match="lists no model") as raised,
    ):
        rig.ask("Who founded Debian?", llm=url)
    assert "--llm-model" in render(raised.value.hint, "command")


def test_the_word_as_it_was_asked_decides_between_sentences(tmp_path: Path) -> None:
    """All is about Debian; one sentence says who founded it, others what is found."""
    docs = tmp_path / "manual"
    docs.mkdir()
    (docs / "names.txt").write_text(
        "How does one pronounce Debian? It is pronounced with a short e. The word is a contraction"
        " of the names of Debra and Ian Murdock, who founded the project. Dictionaries offer some"
        " ambiguity in the pronunciation of Debian.\n"
    )
    (docs / "members.txt").write_text(
        "Debian is developed by an association of individuals who made common cause to create a"
        " free system. How to become a Debian member can be found at the corner for new members.\n"
    )
    with Rig() as rig:
        rig.index(docs, model="minilm", ocr="never", device="cpu")
        result = rig.ask("who founded Debian")
        assert "Ian Murdock, who founded the project." in result.text
        hits = {hit.place.file.name: hit for hit in rig.search("who founded Debian").hits}
        found = hits["names.txt"]
        assert found.sentence is not None
        assert "Ian Murdock" in found.text[slice(*found.sentence)]
        far = rig.ask("when is the rent of the corner flat due")
        assert (far.text, far.method) == ("", "none")


def test_citations_are_numbered_from_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rig.ask("Who founded Debian?", device="cpu")
    late = replace(
        found, text="Ian Murdock did. [3]", passages=(*found.passages[:1] * 3,), cited=(3,)
    )
    monkeypatch.setattr("anyrig.cli.ask.ask", lambda *_: late)
    assert main(["ask", "Who founded Debian?"]) == 0
    out = capsys.readouterr().out
    assert "did. [1]" in out
    assert "\n[1] " in out
    assert "[3]" not in out
