"""What a job may be told: plain JSON, checked before it is queued, said as its command says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.app.books import BookRequest
from anyrig.cli import book
from anyrig.cli.flags import read_flags
from anyrig.cli.parse import command_line, parser_of
from anyrig.errors import InvalidInputError
from anyrig.services.jobs import KINDS, check, words_of
from anyrig.storage.keys import JsonValue

NO_JOB = {"help", "files", "list", "speakers", "sample", "voices", "verify", "words", "queue"}
NO_JOB |= {"json", "log_file", "verbose"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "-b ook.txt").write_text("x")
    return tmp_path


def test_a_book_takes_every_flag_of_its_command() -> None:
    actions = {action.dest for action in parser_of("book", book)._actions}
    assert actions - NO_JOB == set(KINDS["book"].flags)


def test_every_kind_of_value_reaches_the_command(folder: Path) -> None:
    asked: dict[str, JsonValue] = {
        "file": "-b ook.txt", "output": "out/b.m4b", "title": "--list", "author": "=a b",
        "chapters": "3-7,9", "again": ["3:17", "4:2"], "captions": ["srt", "vtt"], "fresh": True,
        "read_along": False, "rate": 1.5, "seed": 7, "loudness": -20, "narrator": None,
        "set": {"sleep_s": 0.01, "on": True}, "notes": "inline", "memory_gb": 2,
    }  # fmt: skip
    checked = check("book", asked, folder)
    assert checked["file"] == str(folder / "-b ook.txt")
    assert checked["folder"] == str(folder)
    assert check("book", {k: v for k, v in checked.items() if k != "folder"}, Path("/")) == {
        **checked, "folder": "/"
    }  # fmt: skip
    _, options = command_line(words_of("book", checked))
    assert options.files == [str(folder / "-b ook.txt")]
    assert options.output == str(folder / "out" / "b.m4b")
    assert options.json
    given = read_flags(options, BookRequest)
    assert (given["title"], given["author"]) == ("--list", "=a b")
    assert (given["chapters"], given["again"]) == (("3-7", "9"), ("3:17", "4:2"))
    assert given["captions"] == ("srt", "vtt")
    assert given["fresh"] is True
    assert "read_along" not in given
    assert (given["rate"], given["seed"], given["loudness"]) == (1.5, 7, -20)
    assert given["set"] == {"sleep_s": "0.01", "on": "true"}
    assert (given["notes"], given["memory_gb"]) == ("inline", 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"titel": "x"}, "'titel'"),
        ({"verify": True}, "'verify'"),
        ({"folder": "/etc"}, "'folder'"),
        ({"title": 5}, "'title'"),
        ({"title": "a\0b"}, "'title'"),
        ({"fresh": "yes"}, "'fresh'"),
        ({"rate": "fast"}, "'rate'"),
        ({"rate": True}, "'rate'"),
        ({"seed": 1.5}, "'seed'"),
        ({"again": [3]}, "'again'"),
        ({"set": ["a=b"]}, "'set'"),
        ({"set": {"a=b": 1}}, "'set'"),
        ({"set": {"a": [1]}}, "'set'"),
        ({"file": ""}, "'file'"),
        ({"file": None}, "'file'"),
        ({"file": "nothing.epub"}, "no file"),
    ],
)
def test_what_is_wrong_is_refused_by_name(
    folder: Path, change: dict[str, JsonValue], said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said) as found:
        check("book", {"file": "-b ook.txt", **change}, folder)
    assert found.value.hint


def test_a_near_name_and_unknown_kinds(folder: Path) -> None:
    with pytest.raises(InvalidInputError) as found:
        check("book", {"file": "-b ook.txt", "voise": "x"}, folder)
    assert "'voice'" in found.value.hint
    with pytest.raises(InvalidInputError, match="no jobs of the kind 'boook'"):
        check("boook", {}, folder)
