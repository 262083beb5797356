"""`anyrig classify` from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from anyrig.cli.main import main
from tests.conftest import Anyrig

BILLS = (
    "pay the bill by friday", "the bill is due, pay now", "pay this bill of forty euros",
    "a bill for you to pay soon", "unpaid bill: pay today", "bill number nine, pay it",
)  # fmt: skip
LETTERS = (
    "dear ann, with love from tom", "dear mother, much love to you", "dear all, love, kim",
    "my dear friend, love and kisses", "dear joe, sending love", "love to my dear aunt",
)  # fmt: skip


@pytest.fixture
def folder() -> Path:
    """Six bills and six letters."""
    for label, texts in (("bill", BILLS), ("letter", LETTERS)):
        for number, text in enumerate(texts):
            file = Path("examples", label, f"{number}.txt")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return Path("examples")


def _train(anyrig: Anyrig, *more: str, name: str = "post") -> str:
    done = anyrig("classify", "train", "examples", "--name", name, "--model", "hashing", *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_trained_kept_shown_used_deleted(anyrig: Anyrig, folder: Path) -> None:
    told = _train(anyrig)
    assert "post@1: 2 labels, one per text" in told
    assert "cross-validated accuracy" in told
    assert "on 12 examples, each left out once" in told
    assert "true \\ predicted" in told
    assert "nothing new is saved" in _train(anyrig)
    Path("examples/bill/new.txt").write_text("pay the second bill as well")
    assert "post@2" in _train(anyrig)
    Path("new.txt").write_text("please pay the bill, the bill of may")
    (Path("in") / "deep").mkdir(parents=True)
    Path("in/deep/a.txt").write_text("dear sister, love")
    Path("in/empty.txt").write_text("")
    Path("in/photo.bin").write_bytes(bytes(range(256)) * 20)
    done = anyrig("classify", "new.txt", "in", "--with", "post")
    assert done.returncode == 1  # one file could not be read, the others are sorted
    assert "bill    new.txt" in done.stdout
    assert "letter  in/deep/a.txt" in done.stdout
    assert "empty.txt is empty" in done.stderr
    assert "1 of 3 texts could not be read" in done.stderr
    shown = json.loads(anyrig("classify", "show", "post@1", "--json").stdout)
    assert shown["counts"] == {"bill": 6, "letter": 6}
    assert shown["versions"] == [1, 2]
    assert shown["figures"]["num_tested"] == 12
    assert "precision" in anyrig("classify", "show", "post").stdout
    assert "post@2" in anyrig("classify", "list").stdout
    assert anyrig("classify", "delete", "post@1").stdout == "Deleted post@1.\n"
    assert "Valid names: post@2" in anyrig("classify", "new.txt", "--with", "post@1").stderr


def test_tables_out(anyrig: Anyrig, folder: Path) -> None:
    _train(anyrig)
    Path("=odd().txt").write_text("")
    done = anyrig("classify", "examples", "=odd().txt", "--with", "post", "-o", "out.csv")
    assert done.returncode == 1
    assert "12 texts classified by post@1, in out.csv" in done.stdout
    with Path("out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 13
    assert {row["label"] for row in rows} == {"bill", "letter", ""}
    assert all(Path(row["name"]).parent.name == row["label"] for row in rows if row["label"])
    assert "empty" in rows[-1]["error"]
    assert rows[-1]["name"] == "'=odd().txt"  # no formula
    assert float(rows[0]["p(bill)"]) + float(rows[0]["p(letter)"]) == pytest.approx(1, abs=1e-5)
    anyrig("classify", "examples", "--with", "post", "-o", "out.jsonl")
    lines = Path("out.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["label"] == "bill"


def test_by_names_alone_from_every_side(anyrig: Anyrig) -> None:
    words = ("--labels", "invoice: a bill to be paid,love letter,cooking recipe", "--json")
    done = anyrig("classify", "-", *words, input="Dear Ann, I love you and miss you. Yours, Tom")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["results"]
    assert (one["name"], one["label"], one["calibrated"]) == (
        "standard input",
        "love letter",
        False,
    )
    lines = "Please pay 40 euros within ten days.\n\nFry the onions and add rice.\n"
    done = anyrig("classify", "--lines", "-", *words, input=lines)
    assert [one["label"] for one in json.loads(done.stdout)["results"]] == [
        "invoice", "cooking recipe",
    ]  # fmt: skip
    odd = "The mitochondrion produces most of the energy that a cell uses."
    done = anyrig("classify", "--text", odd, "--other", *words)
    (one,) = json.loads(done.stdout)["results"]
    assert (one["label"], one["labels"]) == (None, [])
    done = anyrig("classify", "--text", odd, "--other", *words[:2])
    assert "(none of these), nearest: " in done.stdout


def test_a_language_that_the_model_does_not_know_has_no_probability(anyrig: Anyrig) -> None:
    text = "Hiermit kündige ich meinen Mobilfunkvertrag fristgerecht zum 30. Juni dieses Jahres."
    words = ("classify", "--text", text, "--labels", "cancellation,quotation,order", "--no-other")
    done = anyrig(*words, "--model", "minilm")
    assert "[de: not a language of the model]" in done.stdout
    assert "   ? " in done.stdout
    assert "1 text in a language that the model was not trained on (de)" in done.stderr
    assert "cancellation" in anyrig(*words).stdout  # with the multilingual model


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (("a.txt",), "no labels were given", "--labels"),
        (("--labels", "a", "--text", "x"), "nothing to choose", "--multi"),
        (("--with", "none", "--text", "x"), "classifier 'none' not found", "train"),
        (("--with", "owner/name", "--text", "x"), "not on this machine", "--fetch"),
        (("--labels", "a,b", "--text", "x", "--template", "no"), "has no {} for the label", "{}"),
        (("train", "none"), "the classifier needs a name", "--name"),
        (("tran", "post"), "unknown action: `anyrig classify tran`", "classify train"),
        (("delete", "../.."), "not a valid classifier name", "Letters"),
    ],
)
def test_mistakes_are_reported(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str, hint: str
) -> None:
    code = main(["classify", *words, "--model", "hashing"])
    told = capsys.readouterr().err
    assert code in (2, 4), told
    assert said in told
    assert hint in told
