"""Files that released versions wrote open in this one: settings, jobs, index, classifier and more.

`0.1.0/` is the home folder of a person who used 0.1.0, written once by `write-0.1.0` and never
again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Anyrig
from tests.server.conftest import running

STORED = Path(__file__).parent / "0.1.0"
WRITTEN_AT = "/tmp/anyrig-0.1.0"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the home folder, with the paths inside its files moved along."""
    home = Path(os.environ["HOME"])
    shutil.copytree(STORED, home, dirs_exist_ok=True)
    for path in home.rglob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(WRITTEN_AT, str(home)))
    for path in home.rglob("*.sqlite"):
        _move_paths(path, home)
    monkeypatch.chdir(home / "books")
    return home


def _move_paths(database: Path, home: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
        for (table,) in tables:
            for column in connection.execute(f"PRAGMA table_info('{table}')").fetchall():
                connection.execute(
                    f'UPDATE "{table}" SET "{column[1]}" = replace("{column[1]}", ?, ?)'
                    f""" WHERE typeof("{column[1]}") = 'text' AND "{column[1]}" LIKE ?""",
                    (WRITTEN_AT, str(home), f"%{WRITTEN_AT}%"),
                )


def read_json(anyrig: Anyrig, *words: str, **options: Any) -> Any:
    done = anyrig(*words, "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_settings_and_lexicon(home: Path, anyrig: Anyrig) -> None:
    """Engine, lexicon and .env are taken from the files: the pattern of the lexicon is applied."""
    spoken = anyrig("speak", "--dry-run", "Kokoro gave McAdam a tomato.")
    assert spoken.returncode == 0, spoken.stderr
    assert "ko-KO-ro gave mack Adam a [[təˈmɑːtəʊ]]." in spoken.stdout
    table = anyrig("speak", "--dry-run", "--lexicon", "words.tsv", "Nguyen read it.")
    assert "win [[rɛd]] it." in table.stdout


def test_jobs_are_listed_in_their_states(home: Path, anyrig: Anyrig) -> None:
    jobs = read_json(anyrig, "jobs")
    states = {
        Path(job["arguments"]["output"]).name: job["state"] for job in jobs if job["kind"] == "book"
    }
    assert states.pop("half.m4b") in ("queued", "running")  # its process was killed
    assert states == {
        "tide.m4b": "done", "book.m4b": "done",
        "waiting.m4b": "paused", "cancelled.m4b": "cancelled",
    }  # fmt: skip
    finished = next(job for job in jobs if job["arguments"].get("output", "").endswith("tide.m4b"))
    assert [chapter["title"] for chapter in finished["result"]["chapters"]] == [
        "Title page", "CHAPTER I", "CHAPTER II", "CHAPTER III",
    ]  # fmt: skip
    assert any(job["kind"] == "train" for job in jobs)


def test_a_book_half_made_is_finished(home: Path, anyrig: Anyrig) -> None:
    done = anyrig("jobs", "run")
    assert done.returncode == 0, done.stdout + done.stderr
    made = home / "books" / "half.m4b"
    assert made.stat().st_size > 20_000
    job = next(
        job for job in read_json(anyrig, "jobs") if job["arguments"].get("output") == str(made)
    )
    assert job["state"] == "done"
    assert len(job["result"]["chapters"]) == 4


def test_a_cast_file_casts(home: Path, anyrig: Anyrig) -> None:
    plan = anyrig("book", "tide.txt", "--cast", "cast.toml", "--list")
    assert plan.returncode == 0, plan.stderr
    assert "CHAPTER III" in plan.stdout
    made = anyrig("book", "tide.txt", "--cast", "cast.toml", "-o", "cast.m4b")
    assert made.returncode == 0, made.stderr


def test_an_index_is_searched(home: Path, anyrig: Anyrig) -> None:
    found = read_json(anyrig, "search", "how do I cook onions?", "--index", "notes")
    assert "kitchen.md" in json.dumps(found["hits"][0])


def test_an_index_is_brought_up_to_date(home: Path, anyrig: Anyrig) -> None:
    (home / "notes" / "lighthouse.txt").write_text("The lamp of the lighthouse is lit at dusk.\n")
    done = anyrig("index", str(home / "notes"), "--index", "notes")
    assert done.returncode == 0, done.stderr
    found = read_json(anyrig, "search", "when is the lamp lit?", "--index", "notes")
    assert "lighthouse.txt" in json.dumps(found["hits"][0])


def test_a_classifier_sorts(home: Path, anyrig: Anyrig) -> None:
    sorted_texts = anyrig(
        "classify", "--text", "The invoice of 30 euros is due.", "--with", "bills", "--json"
    )
    assert sorted_texts.returncode == 0, sorted_texts.stderr
    assert json.loads(sorted_texts.stdout)["results"][0]["label"] == "invoice"


def test_a_training_run_goes_on_from_its_checkpoint(home: Path, anyrig: Anyrig) -> None:
    run = home / "training" / "run"
    done = anyrig("train", "--resume", str(run), "--steps", "8", "--json")
    assert done.returncode == 0, done.stderr
    steps = [
        line["step"]
        for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        if "loss" in line and "step" in line
    ]
    assert steps.count(1) == 1  # it did not begin again
    assert max(steps) == 8
    assert (run / "checkpoints" / "step-00000008").is_dir()


def test_keys_uploads_lexicon_and_results_of_a_server(home: Path) -> None:
    text = (home / "books" / "keys.json").read_text()
    decoder = json.JSONDecoder()
    reader, end = decoder.raw_decode(text)
    owner, _ = decoder.raw_decode(text[end:].lstrip())
    with running(home, "--require-keys", key=owner["key"]) as server:
        (upload,) = server.client.get("/uploads").json()["files"]
        assert upload["name"] == "tide.txt"
        assert server.client.get(f"/uploads/{upload['id']}").json()["size"] == 139
        assert server.client.get("/lexicon").json()["entries"] == 1
        jobs = server.client.get("/jobs").json()["jobs"]
        book = next(job for job in jobs if job["arguments"]["file"].startswith("upload:"))
        assert server.client.get(f"/jobs/{book['id']}/files/1").content[4:8] == b"ftyp"
        limited = {"Authorization": f"Bearer {reader['key']}"}
        assert server.client.get("/v1/models", headers=limited).status_code == 200
        texts = {"model": "minilm", "input": ["One."]}
        assert server.client.post("/v1/embeddings", json=texts, headers=limited).status_code == 403
        wrong = {"Authorization": f"Bearer {reader['key']}x"}
        assert server.client.get("/v1/models", headers=wrong).status_code == 401
