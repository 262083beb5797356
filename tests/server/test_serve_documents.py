"""Each task on documents against a real server: texts, files that were sent, files of a form."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pypdfium2 as pdfium
import pytest

from tests.server.conftest import Server, run_for
from tests.server.documents_files import LETTER, RECIPE, SCAN, drop, scan, send


@pytest.fixture(scope="module")
def sent(server: Server) -> Iterator[dict[str, str]]:
    found = send(server, letter_txt=LETTER, recipe_txt=RECIPE, bad_pdf=b"%PDF-1.4\nno more")
    yield found
    drop(server, *found.values())


def ask(server: Server, task: str, **body: Any) -> dict[str, Any]:
    answer = server.client.post(f"/documents/{task}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def form(server: Server, task: str, files: dict[str, bytes | str], **fields: Any) -> httpx.Response:
    parts = [("files", (name, data)) for name, data in files.items()]
    return server.client.post(f"/documents/{task}/upload", files=parts, data=fields)


def test_texts_and_files_are_sorted_by_the_names_of_labels(
    server: Server, sent: dict[str, str]
) -> None:
    told = ask(
        server, "classify", texts=[RECIPE, "  "], labels=["letter about a flat", "recipe: food"],
        files=[sent["letter.txt"], sent["bad.pdf"]],
    )  # fmt: skip
    rows = told["results"]
    assert [one["name"] for one in rows] == ["text 1", "text 2", "letter.txt", "bad.pdf"]
    assert rows[0]["result"]["label"] == "recipe"
    assert rows[2]["result"]["label"] == "letter about a flat"
    assert rows[2]["file"] == sent["letter.txt"]
    assert 0.3 < sum(rows[2]["result"]["probabilities"].values()) <= 0.8501  # the rest: no label
    assert "no text" in rows[1]["error"]["title"]
    assert (rows[3]["error"]["status"], rows[3]["result"]) == (400, None)
    assert "bad.pdf" in rows[3]["error"]["title"]
    assert told["num_failed"] == 2


def test_a_trained_classifier_is_listed_and_sorts(server: Server, train: None) -> None:
    (found,) = server.client.get("/documents/classifiers").json()["classifiers"]
    assert (found["name"], found["labels"]) == ("mail", ["food", "home"])
    told = ask(server, "classify", texts=[RECIPE, LETTER], classifier="mail", other=False)
    assert [one["result"]["label"] for one in told["results"]] == ["food", "home"]
    assert told["results"][0]["result"]["calibrated"] is True
    answer = server.client.post(
        "/documents/classify", json={"texts": ["x"], "classifier": "../mail"}
    )
    assert answer.status_code == 400
    answer = server.client.post("/documents/classify", json={"texts": ["x"], "classifier": "none"})
    assert (answer.status_code, "mail" in answer.json()["hint"]) == (400, True)


@pytest.fixture(scope="module")
def train(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    rows = ["text,label"]
    for n in range(6):
        rows.append(f"Bake the cake {n} with eggs and {n + 2} spoons of sugar,food")
        rows.append(f"The rent of flat {n} is due and the landlord waits,home")
    examples = tmp_path_factory.mktemp("examples") / "mail.csv"
    examples.write_text("\n".join(rows))
    run_for(
        server.home, "classify", "train", str(examples), "--name", "mail", "--model", "hashing",
        "--no-bench",
    )  # fmt: skip
    yield
    shutil.rmtree(next(server.home.rglob("classifiers")), ignore_errors=True)


def test_entities_have_kinds_values_and_places(server: Server, sent: dict[str, str]) -> None:
    told = ask(
        server, "entities", texts=[LETTER], files=[sent["letter.txt"]],
        kinds=["money", "dates", "email"], engine="grammar",
    )  # fmt: skip
    for one in told["results"]:
        found = {entity["kind"]: entity for entity in one["result"]["entities"]}
        assert set(found) == {"money", "date", "email"}
        assert found["money"]["value"] == "1200 EUR"
        assert found["date"]["value"] == "2026-05-04"
        assert all(LETTER[e["start"] : e["end"]] == e["text"] for e in found.values())


def test_summaries_are_sentences_of_the_text(server: Server, sent: dict[str, str]) -> None:
    told = ask(server, "summarise", texts=[RECIPE], files=[sent["letter.txt"]], sentences=1)
    first, second = (one["result"]["summaries"][0] for one in told["results"])
    assert first["text"] in RECIPE
    assert second["sentences"][0]["text"] in LETTER
    by_meaning = ask(server, "summarise", texts=[RECIPE], sentences=1, vectors=True)
    assert by_meaning["results"][0]["result"]["summaries"][0]["text"] in RECIPE


def test_an_analysis_tells_of_all_and_names_what_it_could_not_read(
    server: Server, sent: dict[str, str]
) -> None:
    told = ask(
        server, "analyse", texts=[LETTER], files=list(sent.values()), title="Post", model="hashing"
    )
    assert (told["title"], told["num_documents"], told["model"]) == ("Post", 3, "hashing")
    assert {one["file"] for one in told["documents"]} == {"text 1", "letter.txt", "recipe.txt"}
    assert [one["name"] for one in told["failed"]] == ["bad.pdf"]
    (copy,) = told["duplicates"]
    assert {copy["file"], copy["copies"][0]["file"]} == {"text 1", "letter.txt"}
    assert str(server.home) not in str(told)


def test_texts_have_vectors_and_files_have_them_by_passages(
    server: Server, sent: dict[str, str]
) -> None:
    told = ask(
        server, "embed", texts=[LETTER.strip()], model="hashing",
        files=[sent["letter.txt"], sent["bad.pdf"]],
    )  # fmt: skip
    text, file, bad = told["results"]
    (piece,) = file["result"]["passages"]
    assert piece["text"].strip() == LETTER.strip()
    assert len(text["result"]["vector"]) == 256
    assert text["result"]["vector"] == pytest.approx(piece["vector"], abs=1e-4)
    assert bad["error"]["status"] == 400
    answer = server.client.post("/documents/embed", json={"texts": ["x"], "model": "/etc"})
    assert answer.status_code in (400, 404)


def test_likeness_among_texts_and_files(server: Server, sent: dict[str, str]) -> None:
    told = ask(
        server, "similar", to_text="How to bake a cake of eggs", model="hashing",
        texts=["", "A cake of eggs and flour"], files=list(sent.values()),
    )  # fmt: skip
    assert [one["name"] for one in told["similar"]] == ["text 2", "recipe.txt", "letter.txt"]
    assert told["similar"][1]["file"] == sent["recipe.txt"]
    assert {one["name"] for one in told["failed"]} == {"text 1", "bad.pdf"}
    both = {"to_text": "a", "to_file": sent["letter.txt"]}
    answer = server.client.post("/documents/similar", json=both)
    assert answer.status_code == 422
    cake = "# Cake\n\nMix eggs, flour and sugar. Bake the cake, and serve it with cream."
    answer = form(server, "similar", {"a.txt": RECIPE, "b.txt": LETTER, "c.md": cake},
                  model="hashing")  # fmt: skip
    assert answer.status_code == 200, answer.text
    assert answer.json()["to"] == "a.txt"
    assert [one["name"] for one in answer.json()["similar"]] == ["c.md", "b.txt"]


def test_files_of_a_form_are_done_and_deleted(server: Server) -> None:
    before = server.client.get("/uploads").json()
    answer = form(server, "classify", {"a.txt": LETTER, "b.md": RECIPE, "c.docx": b"\x7fELF\0\0"},
                  labels="letter about a flat,recipe", other="false")  # fmt: skip
    assert answer.status_code == 200, answer.text
    rows = answer.json()["results"]
    assert [one["result"] and one["result"]["label"] for one in rows] == [
        "letter about a flat", "recipe", None,
    ]  # fmt: skip
    assert rows[0]["file"] is None
    assert server.client.get("/uploads").json() == before
    wrong = form(server, "classify", {"a.txt": LETTER}, labels="a,b", threshold="much")
    assert (wrong.status_code, "threshold" in wrong.json()["title"]) == (422, True)
    none = form(server, "classify", {"a.txt": LETTER}, colour="red", labels="a,b")
    assert none.status_code == 422
    assert server.client.post("/documents/classify/upload", data={"labels": "a"}).status_code == 415
    assert server.client.get("/uploads").json() == before


def test_where_all_fail_the_answer_is_the_problem(server: Server) -> None:
    answer = form(server, "summarise", {"a.pdf": b"%PDF-1.4\n", "b.txt": b"\0\1\2\3"})
    assert answer.status_code == 400
    told = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["title"] == told["results"][0]["error"]["title"]
    assert len(told["results"]) == 2


def test_pages_are_read_as_text_with_boxes_and_into_a_pdf(server: Server) -> None:
    pytest.importorskip("rapidocr")
    answer = form(server, "ocr", {"scan.png": scan(), "bad.png": b"\x89PNG\r\n\x1a\nno"})
    assert answer.status_code == 200, answer.text
    good, bad = answer.json()["results"]
    assert " ".join(good["result"]["text"].split()) == SCAN
    assert "lines" not in good["result"]["pages"][0]
    assert "bad.png" in bad["error"]["title"]
    boxes = form(server, "ocr", {"scan.tiff": scan(form="TIFF", more=("A second page of it.",))},
                 format="json", pages="2")  # fmt: skip
    (second,) = boxes.json()["results"][0]["result"]["pages"]
    assert second["number"] == 2
    assert second["lines"][0]["words"][0]["text"] == "A"
    assert len(second["lines"][0]["box"]) == 4
    made = form(server, "ocr", {"a/sc\u00e4n.png": scan()}, format="pdf", language="en")
    assert made.status_code == 200, made.text
    assert made.headers["content-type"] == "application/pdf"
    assert "attachment" in made.headers["content-disposition"]
    with pdfium.PdfDocument(io.BytesIO(made.content)) as document:
        text = document[0].get_textpage().get_text_range()
    assert " ".join(text.split()) == SCAN
    assert list((server.data / "made").iterdir()) == []


def test_a_scanned_file_is_read_by_the_other_tasks_too(server: Server) -> None:
    pytest.importorskip("rapidocr")
    answer = form(server, "summarise", {"scan.pdf": scan(form="PDF")}, sentences="1")
    assert answer.status_code == 200, answer.text
    (summary,) = answer.json()["results"][0]["result"]["summaries"]
    assert "boiler" in summary["text"]
    never = form(server, "summarise", {"scan.pdf": scan(form="PDF")}, ocr="never")
    assert never.status_code == 400
