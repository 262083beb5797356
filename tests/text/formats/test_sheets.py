"""Spreadsheets: sheets as chapters of rows; none fills the memory by what it repeats."""

# ruff: noqa: E501 - a piece of XML is a line

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text.document import Document
from anyrig.text.files import detect_format, read
from anyrig.text.folder import find
from tests.text.formats.office_binary import ods, xlsx
from tests.text.page_reading import read_pages

FILES = Path(__file__).parent / "files"
ROWS = (
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c><c r="C1" t="s"><v>2</v></c></row>'
    '<row r="2"><c r="A2" t="inlineStr"><is><t>Apples &amp; more</t></is></c><c r="B2"><v>3</v></c>'
    '<c r="C2" s="1"><v>46082</v></c></row>'
    '<row r="4"><c r="A4" t="b"><v>1</v></c><c r="B4"><f>B2/2</f><v>2.5</v></c></row>'
)  # fmt: skip
SHARED = ("Fruit", "Price", "Since")
TABLE = "Fruit\tPrice\tSince\nApples & more\t3\t2026-03-01\nTRUE\t2.5"


def _texts(document: Document) -> list[tuple[str, str]]:
    return [(one.title, "\n".join(b.text for b in one.blocks)) for one in document.chapters]


def test_each_sheet_of_a_workbook_is_a_chapter(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", {"Prices": ROWS, "Empty": "", "More": ROWS}, shared=SHARED)
    document = read(path)
    assert _texts(document) == [("Prices", TABLE), ("More", TABLE)]
    assert (document.format, detect_format(path)) == ("xlsx", "xlsx")
    assert read_pages(path).text == document.text


def test_blanks_before_a_number_are_none_of_it(tmp_path: Path) -> None:
    rows = '<row r="1"><c r="A1" t="n"><v> 41</v></c><c r="B1" t="s"><v>1</v></c></row>'
    document = read(xlsx(tmp_path / "a.xlsx", {"Quakes": rows}, shared=SHARED))
    assert _texts(document) == [("Quakes", "41\tPrice")]


def test_long_sheets_are_cut_into_pages_with_their_header(tmp_path: Path) -> None:
    rows = "".join(f'<row><c t="inlineStr"><is><t>name {n}</t></is></c><c><v>{n}</v></c></row>'
                   for n in range(1500))  # fmt: skip
    head = '<row><c t="inlineStr"><is><t>Name</t></is></c><c t="inlineStr"><is><t>Number</t></is></c></row>'
    document = read(xlsx(tmp_path / "a.xlsx", {"Long": head + rows}))
    assert [title for title, _ in _texts(document)] == [
        "Long, rows 1-1000", "Long, rows 1001-1500"
    ]  # fmt: skip
    assert _texts(document)[1][1].startswith("Name\tNumber\nname 1000\t1000\n")


def test_open_document_spreadsheets(tmp_path: Path) -> None:
    def cell(text: str) -> str:
        return f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'

    body = (
        f'<table:table table:name="Fruit"><table:table-row>{cell("Name")}{cell("Price")}</table:table-row>'
        f'<table:table-row>{cell("Pears")}<table:table-cell office:value-type="float" office:value="2.5"/>'
        '</table:table-row><table:table-row table:number-rows-repeated="1048574">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>'
    )  # fmt: skip
    document = read(ods(tmp_path / "a.ods", body))
    assert _texts(document) == [("Fruit", "Name\tPrice\nPears\t2.5")]
    assert document.format == "ods"


def test_workbooks_of_old_excel() -> None:
    document = read(FILES / "prices.xls")
    assert _texts(document) == [
        ("Prices", "Fruit\tPrice\tSince\nApples\t3\t2026-03-01\nPears\t2.5\t2026-04-02")
    ]
    assert [path.name for path in find(FILES, types=["xls"]).files] == ["prices.xls"]


REPEATED = (
    '<table:table><table:table-row table:number-rows-repeated="{0}"><table:table-cell'
    ' table:number-columns-repeated="{1}"><text:p>{2}</text:p></table:table-cell>'
    "</table:table-row></table:table>"
)


def test_what_would_fill_the_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    corner = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    with pytest.raises(LimitExceededError, match="cells"):
        read(xlsx(tmp_path / "a.xlsx", {"A": ROWS + corner}, shared=SHARED))
    same = '<row><c t="s"><v>0</v></c></row>' * 3000
    with pytest.raises(LimitExceededError, match="characters of text"):
        read(xlsx(tmp_path / "b.xlsx", {"A": same}, shared=["x" * 100_000]))
    with pytest.raises(LimitExceededError, match="cells"):
        read(ods(tmp_path / "a.ods", REPEATED.format(1_000_000, 1000, "x")))
    with pytest.raises(LimitExceededError, match="characters of text"):
        read(ods(tmp_path / "b.ods", REPEATED.format(1000, 1000, "x" * 10_000)))


def test_broken_and_empty_ones_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no text in it"):
        read(xlsx(tmp_path / "a.xlsx", {"A": ""}))
    with pytest.raises(InvalidInputError, match="not a valid spreadsheet"):
        read(xlsx(tmp_path / "b.xlsx", {"A": "<row><c t='s'><v>99"}))
    (tmp_path / "c.xlsx").write_bytes(b"words")
    with pytest.raises(InvalidInputError, match=r"not a valid XLSX \(damaged\?\)"):
        read(tmp_path / "c.xlsx")
