"""Manifests: rows with their places, in every layout, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.manifest import Trouble, is_manifest, iterate_manifest, read_manifest


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_texts_need_no_label(tmp_path: Path) -> None:
    text = '{"text": "one"}\n\n{"text": "two", "label": "x|y"}\n{"id": 3}\n'
    found = read_manifest(written(tmp_path / "a.jsonl", text), labelled=False)
    assert [(one.text, one.labels) for one in found.examples] == [("one", ()), ("two", ("x", "y"))]
    assert found.troubles == [("a.jsonl, line 4", "it has neither text nor file")]
    table = written(tmp_path / "a.csv", 'id,text\n1,"one, and\nmore"\n2, \n3,two\n')
    found = read_manifest(table, labelled=False)
    assert [one.text for one in found.examples] == ["one, and\nmore", "two"]
    assert found.troubles == [("a.csv, line 4", "its text is empty")]


def test_files_begin_at_the_manifest(tmp_path: Path) -> None:
    table = written(tmp_path / "a.csv", "image;label\nin/a.png;cat\n")
    (one,) = read_manifest(table).examples
    assert (one.file, one.labels) == (tmp_path / "in" / "a.png", ("cat",))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = "text,label\n" + "el café de la señora está frío,mañana\n" * 20
    found = read_manifest(written(tmp_path / "a.csv", text, encoding))
    assert len(found.examples) == 20
    assert found.examples[0].labels == ("mañana",)


def test_a_row_that_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    def resolve(name: str) -> Path:
        raise InvalidInputError(f"{name} is not yours", hint="Send it.")

    table = written(tmp_path / "a.csv", "file,label\na.png,cat\n")
    rows = list(iterate_manifest(table, resolve=resolve))
    assert rows == [Trouble("a.csv, line 2", "a.png is not yours")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", " \n", "is empty"),
        ("a.csv", "one,two\n1,2\n", "does not say which column is the text"),
        ("a.json", "[1, 2", "is not valid JSON"),
        ("a.jsonl", "text\n", "line 1: it is not valid JSON"),
    ],
)
def test_what_is_no_manifest(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        read_manifest(written(tmp_path / name, text), labelled=False)


def test_which_names_are_manifests(tmp_path: Path) -> None:
    assert is_manifest(Path("a.CSV"))
    assert is_manifest(Path("b.jsonl"))
    assert not is_manifest(Path("tokens.uint16"))
    (tmp_path / "folder.csv").mkdir()
    assert not is_manifest(tmp_path / "folder.csv")


def test_what_no_database_takes_is_replaced(tmp_path: Path) -> None:
    rows = ['{"text": "a \\ud800 b\\u0000", "label": "x\\ud800\\u001b[2J"}',
            '{"file": "a\\u0000b", "label": "x"}']  # fmt: skip
    found = read_manifest(written(tmp_path / "a.jsonl", "\n".join(rows)))
    assert [(one.text, one.labels) for one in found.examples] == [("a \ufffd b\ufffd", ("x [2J",))]
    assert found.troubles == [
        ("a.jsonl, line 2", "its file name has characters that no name can have")
    ]
