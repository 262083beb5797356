"""`anyrig index` and `anyrig search` as people and programs use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.search import parse_date
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


@pytest.mark.parametrize("pages", [1, 3, 8, 40])
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
    assert "hint: Free disk space" in told
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
    assert "1 file removed, with 1 passage that no other file has and 1 cached result" in (
        removed.stdout
    ), removed.stderr
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


def test_events_for_programs(anyrig: Anyrig, docs: Path) -> None:
    made = anyrig("index", str(docs), "--json", *HASHING)
    assert made.returncode == 0, made.stderr
    told = events(made.stdout)
    assert (told[0]["event"], told[-1]["event"]) == ("begin", "done")
    assert (told[-1]["new"], told[-1]["failed"]) == (3, [])
    wrong = anyrig("index", "nowhere", "--json")
    assert wrong.returncode == 2
    assert events(wrong.stdout)[-1]["event"] == "failed"


def test_filters_of_the_command_line(anyrig: Anyrig, docs: Path) -> None:
    anyrig("index", str(docs), *HASHING)
    old = time.time() - 40 * 86400
    os.utime(docs / "table.csv", (old, old))
    anyrig("index")

    def files(*flags: str) -> set[str]:
        done = anyrig("search", "rent dogs deposit", "--json", *flags)
        assert done.returncode == 0, done.stderr
        return {Path(hit["file"]).name for hit in json.loads(done.stdout)["hits"]}

    assert files() == {"lease.txt", "pets.md", "table.csv"}
    assert files("--type", "csv,md") == {"pets.md", "table.csv"}
    assert files("--folder", str(docs / "sub")) == {"pets.md"}
    assert files("--before", "30d") == {"table.csv"}
    assert files("--after", "30d", "--type", "*.txt") == {"lease.txt"}


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


def test_a_queued_index(anyrig: Anyrig, docs: Path) -> None:
    queued = anyrig("index", str(docs), "--queue", "--index", "mine", *HASHING)
    assert queued.returncode == 0, queued.stderr
    assert "docs is queued" in queued.stdout
    worked = anyrig("jobs", "run")
    assert worked.returncode == 0, worked.stderr + worked.stdout
    (job,) = json.loads(anyrig("jobs", "--json").stdout)
    assert (job["state"], job["result"]["new"], job["result"]["index"]) == ("done", 3, "mine")
    assert "pets.md" in anyrig("search", "dogs", "--index", "mine").stdout


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


def test_a_folder_behind_a_link_can_be_searched_alone(anyrig: Anyrig, docs: Path) -> None:
    far = docs / ".far"  # hidden, so that it is reached by the link alone
    far.mkdir()
    (far / "note.txt").write_text("The rent of the far house.\n")
    try:
        (docs / "link").symlink_to(far)
    except OSError:
        pytest.skip("no links here")
    assert anyrig("index", str(docs), *HASHING).returncode == 0
    told = json.loads(anyrig("search", "rent", "--json", "--folder", str(docs / "link")).stdout)
    assert [Path(hit["file"]).name for hit in told["hits"]] == ["note.txt"]


def test_an_index_that_was_stopped_early_is_known_of(anyrig: Anyrig, docs: Path) -> None:
    from anyrig.documents.index.folders import add_folders, resolve_folders

    assert anyrig("index", str(docs), *HASHING).returncode == 0
    (made,) = Path(os.environ["XDG_DATA_HOME"]).rglob("default.sqlite")
    add_folders(made.with_name("early.sqlite"), resolve_folders([docs]))
    told = json.loads(anyrig("index", "--index", "early", "--status", "--json").stdout)
    assert (told["files"], told["model"]) == (0, "")
    assert [Path(one["path"]) for one in told["folders"]] == [docs.resolve()]
    said = anyrig("index", "--index", "early", "--status").stdout
    assert "model none yet" in said
    assert "nothing is indexed yet: `anyrig index` starts" in said
    done = anyrig("index", "--index", "early", *HASHING)
    assert "3 new" in done.stdout, done.stderr


def test_the_status_names_a_run_that_was_interrupted(anyrig: Anyrig, docs: Path) -> None:
    from anyrig.documents.index import rows
    from anyrig.documents.index.database import IndexFile, alone

    assert anyrig("index", str(docs), *HASHING).returncode == 0
    (made,) = Path(os.environ["XDG_DATA_HOME"]).rglob("default.sqlite")
    with IndexFile(made) as file:
        file.write(lambda connection: rows.set_pending(connection, 2, time.time() + 1))
    said = anyrig("index", "--status").stdout
    assert "the last run was interrupted: 2 files are not indexed yet" in said
    assert "`anyrig index` continues" in said
    with alone(made):
        assert "being indexed: 2 files are not indexed yet" in anyrig("index", "--status").stdout
    assert anyrig("index").returncode == 0
    assert "not indexed yet" not in anyrig("index", "--status").stdout


def test_a_folder_comes_back_by_include_alone(anyrig: Anyrig, docs: Path) -> None:
    (docs / "tune.wav").write_bytes(b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(200))
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    made = anyrig("index", str(docs), *HASHING)
    assert "1 file of other types skipped: .wav" in made.stderr
    assert "hint: " in made.stderr
    removed = anyrig("index", "--remove", str(docs))
    assert "3 files and 1 that could not be read removed" in removed.stdout
    assert "is excluded until `anyrig index --include" in removed.stdout
    refused = anyrig("index", str(docs))
    assert (refused.returncode, "--include" in refused.stderr) == (2, True)
    assert "3 new" in anyrig("index", "--include", str(docs)).stdout
    wrong = anyrig("index", "--include", str(docs))
    assert wrong.returncode == 2
    assert "was not removed from the index" in wrong.stderr
    assert "default: deleted" in anyrig("index", "--drop").stdout


def test_what_is_not_near_is_not_shown(anyrig: Anyrig, docs: Path) -> None:
    (docs / "es.txt").write_text("La biblioteca abre de lunes a viernes; los sábados cierra.\n")
    anyrig("index", str(docs), *HASHING)
    odd = anyrig("search", "qwxzv blorptag")
    assert odd.returncode == 0, odd.stderr
    assert odd.stdout.startswith("Nothing close was found; --all shows all passages. The nearest")
    told = json.loads(anyrig("search", "qwxzv blorptag", "--json").stdout)
    assert told["hits"] == []
    assert told["not_near"] == 4
    assert Path(told["nearest"]["file"]).is_relative_to(docs)
    shown = anyrig("search", "qwxzv blorptag", "--all")
    assert "4. " in shown.stdout
    assert "similarity" in shown.stdout
    rent = anyrig("search", "rent", "boiler").stdout
    assert "lease.txt" in rent
    assert "pets.md" not in rent
    for named in ("es", "Spanish", "español", "es-MX"):
        found = json.loads(anyrig("search", "biblioteca", "--language", named, "--json").stdout)
        assert [Path(one["file"]).name for one in found["hits"]] == ["es.txt"], named


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
    assert "use the model `multilingual`" in made.stderr
    begin, *_, done = events(made.stdout)
    assert (begin["event"], done["event"]) == ("begin", "done")
    assert [warning in one for one in done["warnings"]] == [True]
    # The model of an index that is there already, with a folder that is new to it.
    assert warning not in anyrig("index", str(docs), "--model", "minilm").stderr
    assert "of the texts are in es" in anyrig("index", str(other)).stderr
    assert "of the texts are in es" in anyrig("index").stderr
