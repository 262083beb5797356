"""Tables in text: marks, headers and encodings found; what is too much or no table is refused."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import resource
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text.files import format_of, read
from anyrig.text.formats.csv import ROWS, dialect_of, has_header
from anyrig.text.formats.limits import Limits


def _text(path: Path, data: bytes | str) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return "\n".join(b.text for chapter in read(path).chapters for b in chapter.blocks)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_mark_between_cells_is_found(tmp_path: Path, mark: str) -> None:
    rows = [["name", "city", "price"], ["Ann", "Lyon", "1"], ["Bo", "Rome", "2"]]
    text = "\r\n".join(mark.join(row) for row in rows)
    assert _text(tmp_path / "a.csv", text) == "\n".join("\t".join(row) for row in rows)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("name;price\nAnn;1,50\nBo;2,75\n", ";"),
        ('a,b\n"x; y; z",1\n"p; q; r",2\n', ","),
        ("sep=|\na|b;c\n1|2;3\n", "|"),
        ("when\twhat\n10:30, Monday\ta, b\n11:00, Friday\tc, d, e\n", "\t"),
        ("one\ntwo\nthree\n", ","),
        ("a,b,c\n1,2\n1,2,3\n4,5,6,7\n", ","),
    ],
)
def test_marks_inside_of_cells_do_not_mislead(text: str, mark: str) -> None:
    assert dialect_of(text).mark == mark


def test_cells_may_hold_quotes_marks_and_lines(tmp_path: Path) -> None:
    text = 'title,said\n"Smith, Ann","first\nsecond"\n"He said ""no""",x\n'
    said = 'title\tsaid\nSmith, Ann\tfirst second\nHe said "no"\tx'
    assert _text(tmp_path / "a.csv", text) == said


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([["name", "age"], ["Ann", "42"], ["Bo", "7"]], True),
        ([["Ann", "42"], ["Bo", "7"]], False),
        ([["name", "city"], ["Ann", "Lyon"], ["Bo", "Rome"]], True),
        ([["date", "sum"], ["2024-01-02", "€ 1.234,50"]], True),
        ([["2024-01-02", "x"], ["2024-01-03", "y"]], False),
        ([["x", "y"], ["y", "x"], ["x", "y"]], False),
        ([["name", "name"], ["a", "b"]], False),
        ([["alone"]], False),
    ],
)
def test_a_header_is_told_from_rows(rows: list[list[str]], header: bool) -> None:
    assert has_header(rows) is header


@pytest.mark.parametrize(
    ("encoding", "name", "city"),
    [
        ("utf-8", "René", "Besançon"),
        ("utf-8-sig", "René", "Besançon"),
        ("latin-1", "René", "Besançon"),
        ("cp1252", "Zoë", "Nîmes – “Gare”"),
        ("latin-1", "5 µm ± 2", "12 m²"),
        ("utf-16", "René", "Besançon"),
        ("utf-16-le", "Rene", "Lyon"),
        ("utf-16-be", "Иван", "Москва"),
        ("shift_jis", "田中太郎", "東京都千代田区"),
        ("cp1251", "Иван Иванович", "Москва и Киев"),
    ],
)
def test_encodings_are_found(tmp_path: Path, encoding: str, name: str, city: str) -> None:
    rows = [["nom", "ville"], *([name, city] for _ in range(6))]
    data = "\n".join(";".join(row) for row in rows).encode(encoding)
    assert _text(tmp_path / "a.csv", data) == "\n".join("\t".join(row) for row in rows)


def test_a_long_table_is_cut_in_pages_with_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,word\n" + "".join(f"{n},w{n}\n" for n in range(2 * ROWS + 5)))
    chapters = read(path).chapters
    assert [chapter.title for chapter in chapters] == [
        f"rows 1-{ROWS}", f"rows {ROWS + 1}-{2 * ROWS}", f"rows {2 * ROWS + 1}-{2 * ROWS + 5}",
    ]  # fmt: skip
    assert all(chapter.blocks[0].text.startswith("id\tword\n") for chapter in chapters)
    assert chapters[2].blocks[0].text.splitlines()[-1] == f"{2 * ROWS + 4}\tw{2 * ROWS + 4}"


def test_a_million_columns_and_zeros_and_giant_cells_are_read(tmp_path: Path) -> None:
    assert len(_text(tmp_path / "a.csv", ",".join("x" * 1_000_000)).split("\t")) == 1_000_000
    assert _text(tmp_path / "b.csv", b"a,b\n\x00one\x00,two\n") == "a\tb\none\ttwo"
    assert len(_text(tmp_path / "c.csv", 'a,"' + "z" * 3_000_000 + '"\n')) == 3_000_002


def test_the_limit_of_cells_holds_and_python_s_own_is_put_back(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = tmp_path / "a.csv"
    path.write_text("1,2,3\n" * 1000)
    with pytest.raises(LimitExceededError, match="2,000 cells") as caught:
        read(path, limits=Limits(cells=2000))
    assert caught.value.limit == "cells"
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("data", [b"", b"\n\n\n", b",,,,\n,,,\n", b"\x00\x00\x00\x00"])
def test_a_table_of_nothing_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"empty|no text|no table"):
        read(tmp_path / "a.csv")


def test_noise_is_read_or_refused_in_little_time(tmp_path: Path) -> None:
    chance = random.Random(5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for number in range(30):
        path = tmp_path / f"{number}.csv"
        signs = b'",;\t|\n\r\x00ab1' if number % 2 else bytes(range(256))
        path.write_bytes(bytes(chance.choice(signs) for _ in range(20_000)))
        with contextlib.suppress(InvalidInputError):
            read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_formats_by_name(tmp_path: Path) -> None:
    for name in ("a.csv", "b.TSV", "c.tab"):
        (tmp_path / name).write_text("a\tb\n1\t2\n")
        assert format_of(tmp_path / name) == "csv"
    (tmp_path / "d.csv").write_bytes(b"%PDF-1.4\n")
    assert format_of(tmp_path / "d.csv") == "pdf"
    os.truncate(tmp_path / "d.csv", 0)
    with pytest.raises(InvalidInputError, match="empty"):
        read(tmp_path / "d.csv")
