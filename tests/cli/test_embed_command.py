"""`anyrig embed` as people and programs use it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.cli.main import main


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["embed", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_words_become_a_line_of_json_each(capsys: Any) -> None:
    code, out, _ = run(capsys, "The cat sleeps.", "El gato duerme.", "--model", "minilm")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["name"] for line in lines] == ["The cat sleeps.", "El gato duerme."]
    assert all(len(line["vector"]) == 384 for line in lines)


def test_every_format_holds_the_same_vectors(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "lines.txt").write_text("one thing\n\nanother, with a comma\n", encoding="utf-8")
    found = {}
    for end in ("npy", "npz", "jsonl", "csv"):
        code, out, _ = run(capsys, "--lines", "lines.txt", "-o", f"x.{end}", "--model", "hashing",
                           "--json")  # fmt: skip
        told = json.loads(out)
        assert (code, told["texts"], told["dimension"]) == (0, 2, 256)
    found["npy"] = np.load("x.npy")
    packed = np.load("x.npz")
    assert packed["names"].tolist() == ["1", "3"]
    found["npz"] = packed["vectors"]
    lines = Path("x.jsonl").read_text().splitlines()
    found["jsonl"] = np.array([json.loads(line)["vector"] for line in lines], np.float32)
    with Path("x.csv").open(newline="") as file:
        found["csv"] = np.array(
            [list(map(float, row[1:])) for row in list(csv.reader(file))[1:]], np.float32
        )
    for made in found.values():
        np.testing.assert_allclose(made, found["npy"], atol=1e-7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x", "-o", "no/such/x.npy"], "there is no folder"),
        (["x", "--model", "owner/name"], "not on this machine"),
        (["papers/nosuch.pdf"], "no such file"),
        (["papers/"], "no such file"),
    ],
)
def test_what_cannot_be_done_is_one_error_with_a_hint(
    words: list[str], said: str, capsys: Any
) -> None:
    code, _, err = run(capsys, *words)
    assert code in (2, 4)
    assert said in err
    assert "hint:" in err
    assert not list(Path().glob("x.*"))


def test_a_cut_text_is_told_of_when_its_vector_is_kept_as_well(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "long.txt").write_text("The harbour was quiet. " * 200, encoding="utf-8")
    for _ in range(2):
        _, _, err = run(capsys, "long.txt", "--long", "cut", "--model", "minilm", "-o", "x.npy")
        assert "1 text longer than the 256 tokens" in err
    _, _, err = run(capsys, "long.txt", "--model", "minilm", "-o", "x.npy")
    assert "longer than" not in err


def test_an_empty_word_is_a_text_and_not_this_folder(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "other.txt").write_text("Not asked for.", encoding="utf-8")
    code, out, _ = run(capsys, "", "~5 minutes", "--model", "hashing")
    assert code == 0
    assert len(out.splitlines()) == 2
