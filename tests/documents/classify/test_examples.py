"""Examples as people keep them: folders, tables, lines of JSON, with what goes wrong in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anyrig.documents.classify.labels import NamedLabel, build_labels, split_labels
from anyrig.errors import InvalidInputError
from anyrig.text.manifest import parse_labels, read_manifest


@pytest.fixture
def spot(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def _written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def test_a_folder_of_folders(spot: Path) -> None:
    _written(spot / "invoice" / "a.txt", "pay")
    _written(spot / "invoice" / "2024" / "b.txt", "pay more")
    _written(spot / "love  letter" / "c.txt", "dear")
    _written(spot / "invoice" / ".hidden", "no")
    _written(spot / "stray.txt", "no label")
    (spot / "empty").mkdir()
    found = read_manifest(spot)
    assert [(one.labels, one.file and one.file.name) for one in found.examples] == [
        (("invoice",), "b.txt"), (("invoice",), "a.txt"), (("love letter",), "c.txt"),
    ]  # fmt: skip
    assert {one.place for one in found.troubles} == {"stray.txt", "empty"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_that_leads_out_of_a_folder_of_examples_is_left_out(
    spot: Path, tmp_path: Path
) -> None:
    _written(spot / "invoice" / "a.txt", "pay")
    _written(tmp_path / "private" / "diary.txt", "nobody's business")
    (spot / "invoice" / "b.txt").symlink_to(spot / "invoice" / "a.txt")
    (spot / "invoice" / "diary.txt").symlink_to(tmp_path / "private" / "diary.txt")
    (spot / "private").symlink_to(tmp_path / "private", target_is_directory=True)
    found = read_manifest(spot)
    assert [one.file and one.file.name for one in found.examples] == ["a.txt", "b.txt"]
    assert {one.place for one in found.troubles} == {"invoice/diary.txt", "private/diary.txt"}


@pytest.mark.parametrize(
    "text",
    [
        "id\ttext\tlabel\n1\tpay me\tinvoice\n2\tdear, you\tletter\n",
        '\ufeffText,Label\r\npay me,invoice\r\n\r\n"dear, you",letter\r\n',
        'pay me,invoice\n"dear, you",letter\n',
    ],
)
def test_tables(spot: Path, text: str) -> None:
    found = read_manifest(_written(spot / "examples.csv", text))
    assert [(one.text, one.labels) for one in found.examples] == [
        ("pay me", ("invoice",)), ("dear, you", ("letter",)),
    ]  # fmt: skip
    assert not found.troubles


def test_a_table_of_files_and_of_several_labels(spot: Path) -> None:
    _written(spot / "in" / "a.txt", "pay")
    table = _written(spot / "examples.csv", "file,labels\nin/a.txt,urgent | invoice|urgent\n")
    (one,) = read_manifest(table).examples
    assert one.file == spot / "in" / "a.txt"
    assert one.labels == ("urgent", "invoice")
    bare = _written(spot / "bare.csv", "in/a.txt,invoice\n")
    assert read_manifest(bare).examples[0].file == spot / "in" / "a.txt"


def test_lines_of_json(spot: Path) -> None:
    text = (
        '{"text": "pay", "label": "invoice"}\n'
        '{"text": "dear\\nyou", "labels": ["letter", "urgent"]}\n'
        "not json\n"
        '{"text": "what is it"}\n'
        '{"label": "invoice"}\n'
        '["text", "label"]\n'
        '{"file": "a.txt", "label": 3}\n'
    )
    found = read_manifest(_written(spot / "examples.jsonl", text))
    assert [one.labels for one in found.examples] == [("invoice",), ("letter", "urgent"), ("3",)]
    assert found.examples[2].file == spot / "a.txt"
    said = {one.place.rpartition(" ")[2]: one.reason for one in found.troubles}
    assert said["3"].startswith("it is not valid JSON")
    assert said["4"] == "it has no label"
    assert said["5"] == "it has neither text nor file"
    assert said["6"] == "it is not a JSON object"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "one,two,three\n1,2,3\n", "does not say which column"),
        ("a.csv", "text,label\n", "there are no examples"),
        ("a.csv", "text,label\n ,invoice\n", "its text is empty"),
        ("a.json", "[1, 2", "is not valid JSON"),
    ],
)
def test_what_is_no_set_of_examples(spot: Path, name: str, text: str, said: str) -> None:
    path = _written(spot / name, text)
    with pytest.raises(InvalidInputError, match=said):
        read_manifest(path)


def test_a_file_that_is_not_there(spot: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_manifest(spot / "none.csv")
    with pytest.raises(InvalidInputError, match="there are no examples"):
        read_manifest(spot)


def test_labels_as_words(spot: Path) -> None:
    assert build_labels(split_labels("invoice, letter ,contract")) == (
        NamedLabel("invoice"), NamedLabel("letter"), NamedLabel("contract"),
    )  # fmt: skip
    assert build_labels(split_labels('"a, b": no, letter: to a  friend'))[1] == NamedLabel(
        "letter", "to a friend"
    )
    file = _written(spot / "labels.txt", "# kinds\ninvoice: a bill, to be paid\n\nletter\n")
    assert build_labels(split_labels(f"@{file}")) == (
        NamedLabel("invoice", "a bill, to be paid"),
        NamedLabel("letter"),
    )
    assert parse_labels("a| b |a||c") == ("a", "b", "c")


@pytest.mark.parametrize("text", ["", "a,a", ":no name", "@nowhere.txt"])
def test_labels_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInputError):
        build_labels(split_labels(text))
