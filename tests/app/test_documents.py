"""Documents from Python: analysed, classified, searched for entities, summarised."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from anyrig import Rig
from anyrig.app.analyse import list_failed
from anyrig.app.classify import list_classifiers
from anyrig.errors import InvalidInputError, InvalidOptionError
from anyrig.events import Event, ProgressEvent
from tests.documents.analyse import topics
from tests.documents.marked_texts import load


def test_a_folder_is_analysed_and_the_report_written(tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    topics.make(folder)
    (folder / "empty.txt").write_text("")
    events: list[Event] = []
    found = Rig().analyse(
        folder, model="hashing", output=tmp_path / "x.html", on_event=events.append
    )
    assert (found.title, found.model, len(found.clustering.clusters)) == ("papers", "hashing", 3)
    assert [one.file for one in list_failed(found)] == ["empty.txt"]
    assert any(isinstance(one, ProgressEvent) and one.stage == "analysing" for one in events)
    assert "papers" in (tmp_path / "x.html").read_text(encoding="utf-8")


BILLS = ("pay the bill by friday", "the bill is due, pay now", "unpaid bill: pay today")
LETTERS = ("dear ann, with love from tom", "dear mother, much love to you", "dear all, love, kim")


@pytest.fixture
def trained() -> Rig:
    rows = [{"text": text, "label": "bill"} for text in BILLS]
    rows += [{"text": text, "label": "letter"} for text in LETTERS]
    Path("examples.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    rig = Rig()
    result = rig.train_classifier("examples.jsonl", name="post", model="hashing")
    assert result.is_new
    assert result.about.labels == ("bill", "letter")
    return rig


def test_a_trained_classifier_brings_its_own_model(
    trained: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [about.title for about in list_classifiers(trained)] == ["post@1"]
    monkeypatch.setenv("ANYRIG_DOCUMENTS_MODEL", "minilm")
    result = Rig().classify(texts=["pay the bill", "dear you, love"], classifier="post")
    assert result.labels == ["bill", "letter"]
    assert result.by == "post@1"


def test_one_bad_file_of_two_is_reported_and_one_of_one_is_raised(trained: Rig) -> None:
    Path("empty.txt").write_text("")
    Path("bill.txt").write_text("pay the bill")
    with pytest.raises(InvalidInputError, match=r"empty\.txt"):
        trained.classify("empty.txt", classifier="post", output="out.csv")
    assert not Path("out.csv").exists()
    result = trained.classify("empty.txt", "bill.txt", classifier="post", output="out.csv")
    assert [one.file for one in result.failed] == ["empty.txt"]
    assert [row["label"] for row in result.list_rows()] == ["bill"]
    with Path("out.csv").open(newline="", encoding="utf-8") as file:
        assert [row["label"] for row in csv.DictReader(file)] == ["", "bill"]


def test_what_a_request_may_not_say() -> None:
    with pytest.raises(InvalidOptionError, match="`labels` and `classifier` were both given"):
        Rig().classify(texts=["x"], labels=["a", "b"], classifier="post")
    with pytest.raises(InvalidInputError, match="no labels were given"):
        Rig().classify(texts=["x"])
    with pytest.raises(InvalidInputError, match="no such file or folder"):
        Rig().train_classifier("nowhere", name="post")


TEXT = "Pay £1,250.00 to GB29 NWBK 6016 1331 9268 19 by 3 May 2024."


def test_texts_and_files() -> None:
    Path("letter.txt").write_text("Due: 12 %, then 12 %.", encoding="utf-8")
    result = Rig().find_entities("letter.txt", texts=[TEXT], engine="grammar")
    rows = result.list_rows()
    assert [(row["file"], row["kind"]) for row in rows] == [
        ("text 1", "money"), ("text 1", "iban"), ("text 1", "date"),
        ("letter.txt", "percent"), ("letter.txt", "percent"),
    ]  # fmt: skip
    assert result.sources[0].text[rows[1]["start"] : rows[1]["end"]] == rows[1]["text"]
    assert [row["count"] for row in result.sources[1].list_rows(distinct=True)] == [2]


def test_a_text_and_files_are_summarised(tmp_path: Path) -> None:
    text = next(one for one in load() if one.name == "en_memo").text
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "b.txt").write_text("")
    rig = Rig()
    (of_text,) = rig.summarise(texts=text, sentences=2)
    summary = of_text.summaries[0].summary
    assert summary.language == "en"
    first, second = rig.summarise([tmp_path / "a.txt", tmp_path / "b.txt"], sentences=2)
    assert first.summaries[0].summary.text == summary.text
    assert second.error is not None
    assert "b.txt is empty" in second.error.message
