"""`Rig.classify` and `Rig.train_classifier`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from anyrig import Rig
from anyrig.app.classify import list_classifiers
from anyrig.errors import InvalidInputError, InvalidOptionError

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
