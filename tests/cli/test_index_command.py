"""`anyrig index` and `anyrig search` as people and programs use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.search import parse_date
from anyrig.app.uploads import Uploads
from anyrig.cli.main import main
from anyrig.errors import InvalidInputError
from tests.conftest import Anyrig
from tests.documents.index.folder import aged

HASHING = ("--model", "hashing")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "lease.txt").write_text("The rent is due on the first of the month.\n")
    (folder / "sub" / "pets.md").write_text("# House rules\n\nDogs are welcome, parrots are not.\n")
    (folder / "table.csv").write_text("name,amount\nrent,950\ndeposit,1900\n")
    return folder


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(one) for one in text.splitlines()]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_that_lead_out_of_the_folder_are_not_indexed(
    anyrig: Anyrig, docs: Path, tmp_path: Path
) -> None:
    (tmp_path / "diary.txt").write_text("The parrots sing in the attic at night.\n")
    (docs / "diary.txt").symlink_to(tmp_path / "diary.txt")
    (docs / "system").symlink_to("/proc", target_is_directory=True)
    (docs / "sub" / "again").symlink_to(docs, target_is_directory=True)
    made = anyrig("index", str(docs), *HASHING)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("default: 3 new; 3 passages")
    assert "2 links that lead out of the folder were not followed" in made.stderr
    found = anyrig("search", "attic", "--json", "--mode", "keywords")
    assert json.loads(found.stdout)["hits"] == []


@pytest.mark.parametrize("pages", [1, 40])
def test_a_full_disk_is_named_with_what_to_do(
    docs: Path, tmp_path: Path, pages: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A file of so many pages is refused by SQLite as a full disk is."""
    import sqlite3

    for number in range(12):
        (docs / f"{number}.txt").write_text(" ".join(f"w{number}x{n}" for n in range(2000)))
    connect = sqlite3.connect

    def small(path: Any, *more: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(path, *more, **options)
        if "default.sqlite" in str(path):
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setattr(sqlite3, "connect", small)
    assert main(["index", str(docs), "--no-bench", *HASHING]) == 1
    told = capsys.readouterr().err
    assert "error: No space left on device: " in told
    assert "hint: Free some space" in told
    assert "rollback" not in told
    monkeypatch.setattr(sqlite3, "connect", connect)
    assert main(["index", str(docs), "--no-bench", *HASHING]) == 0


def test_a_folder_is_indexed_searched_watched_over_and_forgotten(
    anyrig: Anyrig, docs: Path
) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    aged(docs / "broken.pdf")
    made = anyrig("index", str(docs), *HASHING)
    assert made.returncode == 1, made.stderr
    assert made.stdout.startswith("default: 3 new, 1 not read; 3 passages")
    assert "broken.pdf" in made.stderr
    found = anyrig("search", "rent", "due", "--limit", "1")
    assert found.returncode == 0, found.stderr
    assert "lease.txt" in found.stdout
    assert "The rent is due on the first of the month." in found.stdout
    again = anyrig("index")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("default: 3 unchanged")

    told = json.loads(anyrig("search", "parrots", "--json", "--mode", "keywords").stdout)
    (hit,) = told["hits"]
    assert Path(hit["file"]) == docs / "sub" / "pets.md"
    text = hit["text"]
    assert [text[a:b] for a, b in hit["matches"]] == ["parrots"]
    assert hit["end"] - hit["start"] == len(text)

    status = json.loads(anyrig("index", "--status", "--json").stdout)
    assert (status["files"], status["model"]) == (3, "hashing")
    assert [Path(one["file"]).name for one in status["failed"]] == ["broken.pdf"]
    assert "docs: 3 files" in anyrig("index", "--status").stdout

    removed = anyrig("index", "--remove", str(docs / "lease.txt"))
    assert "1 file removed, with 1 passage that no other file has" in removed.stdout, removed.stderr
    for file in Path(os.environ["HOME"]).rglob("*.sqlite*"):
        assert b"due on the first" not in file.read_bytes(), file
    assert "1 excluded" in anyrig("index").stdout
    assert "lease.txt" not in anyrig("search", "rent").stdout
    included = anyrig("index", "--include", str(docs / "lease.txt"))
    assert "1 new" in included.stdout, included.stderr
    assert "lease.txt" in anyrig("search", "rent due", "--files").stdout

    assert "hashing" in anyrig("index", "--list").stdout
    assert anyrig("index", "--drop").returncode == 0
    assert "There is no index yet" in anyrig("index", "--list").stdout


def test_what_is_wrong_is_said_with_what_to_do(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*words: str) -> str:
        assert main([*words]) == 2, words
        return capsys.readouterr().err

    for words, message, hint in (
        (("search", "words"), "there is no index 'default'", "anyrig index FOLDER"),
        (("index",), "no folder was given", "anyrig index FOLDER"),
        (("index", "--remove"), "--remove needs a file or folder", "Name one"),
        (("index", "--status", "--list"), "were both given", "one of them"),
    ):
        error = fail(*words)
        assert message in error
        assert hint in error
    for flags, message in (
        (("--type", "dcx"), "there is no type 'dcx'"),
        (("--type", "dcx", *HASHING), "there is no type 'dcx'"),
        (("--model", "none/such"), "none/such"),
    ):
        main(["index", str(docs), *flags])
        assert message in capsys.readouterr().err
        assert main(["index", "--list"]) == 0
        assert str(docs) not in capsys.readouterr().out
    assert main(["index", str(docs), *HASHING]) == 0
    for flags, message in (
        (("--after", "soon"), "'soon' is not a date"),
        (("--limit", "0"), "--limit must be a whole number between 1 and 1000"),
        (("--type", "dcx"), "no file of the type 'dcx'\n  hint: It has: csv (1), md (1), txt (1)"),
        (("--language", "Spanish"), "no file in the language 'spanish'"),
        (("--folder", "nowhere"), "no file in nowhere"),
    ):
        assert message in fail("search", "rent", *flags)
    for hostile in ("AND (", '"', "*", "-x", "x" * 10_000):
        assert main(["search", "--mode", "keywords", "--", hostile]) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_watching_ends_clean_by_an_interrupt(docs: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "index", str(docs), "--watch", "--json", *HASHING],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    said = [json.loads(child.stdout.readline()) for _ in range(1)]
    while said[-1]["event"] != "done":
        said.append(json.loads(child.stdout.readline()))
    assert said[-1]["new"] == 3
    (docs / "later.txt").write_text("A later word.")
    while said[-1].get("new") != 1:
        said.append(json.loads(child.stdout.readline()))
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert events(out)[-1]["event"] == "stopped"
    assert child.returncode == 0, err
    assert "Traceback" not in err


def test_days_as_people_write_them() -> None:
    import datetime

    now = datetime.datetime(2026, 3, 31, 12)
    assert parse_date("2026-03-01") == datetime.datetime(2026, 3, 1).timestamp()
    assert (
        parse_date("2026/3") == parse_date("2026-03") == datetime.datetime(2026, 3, 1).timestamp()
    )
    assert parse_date("2026") == datetime.datetime(2026, 1, 1).timestamp()
    assert parse_date("2w", now) == datetime.datetime(2026, 3, 17, 12).timestamp()
    for wrong in ("", "yesterday", "2026-13", "2026-02-30", "12", "9" * 30 + "d", "2026-1-1-1"):
        with pytest.raises(InvalidInputError):
            parse_date(wrong)


def test_a_damaged_index_does_not_hide_the_others(anyrig: Anyrig, docs: Path) -> None:
    assert anyrig("index", str(docs), *HASHING).returncode == 0
    (made,) = Path(os.environ["XDG_DATA_HOME"]).rglob("default.sqlite")
    made.with_name("bad.sqlite").write_bytes(b"no database at all" * 400)
    listed = anyrig("index", "--list")
    assert listed.returncode == 1
    assert "hashing" in listed.stdout
    assert "bad" in listed.stderr


SPANISH = (
    "El alquiler se paga el primer día de cada mes, y la fianza se devuelve al final del contrato.",
    "Los perros y los gatos son bienvenidos en la casa, pero no en la cocina del restaurante.",
)


def test_a_spanish_folder_with_the_english_model_is_told_before_it_is_embedded(
    anyrig: Anyrig, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "casa"
    other.mkdir()
    for number, text in enumerate(SPANISH):
        (other / f"{number}.txt").write_text(text, encoding="utf-8")
    made = anyrig("index", str(other), "--model", "minilm", "--index", "es", "--json")
    assert made.returncode == 0, made.stderr
    warning = "the texts are in es, but minilm was trained on en only"
    assert warning in made.stderr
    assert "use the model `use-multilingual`" in made.stderr
    begin, *_, done = events(made.stdout)
    assert (begin["event"], done["event"]) == ("begin", "done")
    assert [warning in one for one in done["warnings"]] == [True]
    # The model of an index that is there already, with a folder that is new to it.
    assert warning not in anyrig("index", str(docs), "--model", "minilm").stderr
    assert "of the texts are in es" in anyrig("index", str(other)).stderr
    assert "of the texts are in es" in anyrig("index").stderr


def test_uploads_have_their_names(anyrig: Anyrig, tmp_path: Path) -> None:
    uploads = Uploads(tmp_path / "uploads", max_bytes=1000, max_files=10)
    with uploads.receive("Letter of May.txt") as writer:
        writer.write(b"The rent is due on the first of the month.")
    file = uploads.path(writer.upload.id)
    assert anyrig("index", str(file), "--model", "hashing").returncode == 0
    found = anyrig("search", "rent")
    assert "1. Letter of May.txt (uploaded)" in found.stdout
    assert writer.upload.id not in found.stdout
    (hit,) = json.loads(anyrig("search", "rent", "--json").stdout)["hits"]
    assert (hit["name"], hit["file"]) == ("Letter of May.txt", str(file))
    assert "Letter of May.txt (uploaded): 1 file" in anyrig("index", "--status").stdout
