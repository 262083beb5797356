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


def test_from_a_pipe_redacted(anyrig: Anyrig) -> None:
    done = anyrig("entities", "-", "--redact", "--engine", "grammar", input=TEXT)
    assert done.stdout == "Pay [MONEY] to [IBAN] by [DATE], says [EMAIL].\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--text", "x", "--kinds", "colour"), "no kind of entity 'colour'"),
        ((), "nothing to search"),
        (("--text", "x", "--labels", "river"), "--labels needs a GLiNER model"),
        (("--text", "x", "-o", "found.xyz"), "found.xyz: unknown format"),
        (("--text", "x", "--redact", "--json"), "--redact writes text, not JSON"),
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
    assert "names of people are still in the text: none were looked for" in done.stderr
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == ["letter.txt.2.redacted.txt", "letter.txt.redacted.txt"]
    refused = anyrig("entities", *files, "--redact", "--engine", "grammar")
    assert refused.returncode == 2
    assert "several redacted texts cannot be printed" in refused.stderr


def test_redacted_names_are_counted(anyrig: Anyrig, tmp_path: Path) -> None:
    letter, out = tmp_path / "letter.txt", tmp_path / "clean.txt"
    letter.write_text("From: Maria Gonzalez <maria.gonzalez@example.com>\n\nGonzalez left.\n")
    done = anyrig("entities", str(letter), "--redact", "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "From: [PERSON] <[EMAIL]>\n\n[PERSON] left.\n"
    assert f"3 entities of 1 text in {out}" in done.stdout
    people = anyrig("entities", str(letter), "--redact", "--kinds", "person")
    assert people.stdout == "From: [PERSON] <[PERSON]@example.com>\n\n[PERSON] left.\n"


def test_names_of_a_language_without_a_model_are_named_with_the_flag(anyrig: Anyrig) -> None:
    words = ("entities", "--text", "Jan Kowalski zapłacił.", "--language", "pl")
    assert "; pass a --model that supports it" in anyrig(*words).stderr
    told = json.loads(anyrig(*words, "--json").stdout)
    assert "pass a --model that supports it" in told["warnings"][0]["warning"]
