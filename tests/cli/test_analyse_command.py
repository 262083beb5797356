from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Anyrig
from tests.documents.analyse import topics

EVIL = "<script>alert(1)<.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "papers"
    made.mkdir()
    topics.make(made)
    copy = topics.text_of("banking", 0).replace("The", "This")
    (made / EVIL).write_text(copy, encoding="utf-8")
    (made / "empty.txt").write_text("")
    return made


def test_a_folder_in_short_and_as_a_page(anyrig: Anyrig, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "out" / "report.html"
    done = anyrig("analyse", str(folder), "--no-vectors", "-o", str(page))
    assert done.returncode == 1  # one file could not be read
    assert "13 documents" in done.stdout
    assert "clusters" in done.stdout
    assert f"{EVIL}" in done.stdout
    assert "empty.txt is empty" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "papers" in text
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_data_for_programs(anyrig: Anyrig, folder: Path) -> None:
    (folder / "empty.txt").unlink()
    done = anyrig(
        "analyse", str(folder), "--model", "hashing", "--json", "--similar",
        str(folder / "as1.txt"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["model"] == "hashing"
    assert found["num_documents"] == 13
    assert len(found["clusters"]) == 3
    assert found["failed"] == []
    assert found["similar"]["to"] == "as1.txt"
    assert found["similar"]["files"][0]["file"].startswith("as")
    copies = {one["file"] for group in found["duplicates"] for one in group["copies"]}
    assert copies & {EVIL, "ba0.txt"}
    first = found["documents"][0]
    assert {"phrases", "num_words", "reading_s", "language", "cluster", "date"} <= set(first)


def test_texts_too_short_to_tell_their_language_are_no_foreign_ones(
    anyrig: Anyrig, tmp_path: Path
) -> None:
    made = tmp_path / "notes"
    made.mkdir()
    (made / "a.txt").write_text("inside words")
    (made / "b.txt").write_text("outside words")
    done = anyrig("analyse", str(made))
    assert done.returncode == 0, done.stderr
    assert "und" not in done.stderr
    assert "vectors of minilm" in done.stdout
