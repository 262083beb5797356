"""Outlook messages, spreadsheets and slides, made by code."""

# ruff: noqa: E501 - a piece of XML is a line

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_SECTOR, _MINI, _CUTOFF = 512, 64, 4096
_FREE, _END, _FAT, _NONE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF


def ole(streams: Mapping[str, bytes]) -> bytes:
    """A compound file: streams by path, such as `a/b`; folders come from the paths."""
    paths = sorted(
        {"/".join(p.split("/")[:n]) for p in streams for n in range(1, p.count("/") + 2)}
    )
    numbers = {path: at for at, path in enumerate(paths, 1)}
    sectors: list[bytes] = []
    table: list[int] = []
    mini = b""
    mini_table: list[int] = []
    places: dict[str, tuple[int, int]] = {}

    def put(data: bytes) -> int:
        first, count = len(sectors), -(-len(data) // _SECTOR)
        sectors.extend(
            data[at * _SECTOR : (at + 1) * _SECTOR].ljust(_SECTOR, b"\0") for at in range(count)
        )
        table.extend([*range(first + 1, first + count), _END] if count else [])
        return first if count else _END

    for path, data in streams.items():
        if len(data) >= _CUTOFF:
            places[path] = put(data), len(data)
            continue
        first, count = len(mini_table), -(-len(data) // _MINI)
        mini_table += [*range(first + 1, first + count), _END] if count else []
        mini += data.ljust(count * _MINI, b"\0")
        places[path] = (first if count else _END), len(data)
    root = put(mini), len(mini)
    mini_first = put(struct.pack(f"<{len(mini_table)}I", *mini_table).ljust(_SECTOR, b"\xff"))

    def entry(name: str, kind: int, right: int, child: int, first: int, size: int) -> bytes:
        text = name.encode("utf-16-le")
        return (
            text.ljust(64, b"\0") + struct.pack("<HBB", len(text) + 2, kind, 1)
            + struct.pack("<III", _NONE, right, child) + bytes(36) + struct.pack("<IQ", first, size)
        )  # fmt: skip

    def list_children(above: str) -> list[str]:
        return [p for p in paths if (p.rpartition("/")[0]) == above]

    right: dict[str, int] = {}
    for above in ["", *paths]:
        below = list_children(above)
        right |= {a: numbers[b] for a, b in zip(below, below[1:], strict=False)}
    first_child = {a: numbers[c[0]] for a in ["", *paths] if (c := list_children(a))}
    directory = entry("Root Entry", 5, _NONE, first_child.get("", _NONE), *root)
    for path in paths:
        first, size = places.get(path, (0, 0))
        kind = 2 if path in streams else 1
        directory += entry(
            path.rpartition("/")[2], kind, right.get(path, _NONE), first_child.get(path, _NONE),
            first, size,
        )  # fmt: skip
    directory_first = put(directory)
    num_fat = 1
    while num_fat * (_SECTOR // 4) < len(table) + num_fat:
        num_fat += 1
    fat_first = len(table)
    table += [_FAT] * num_fat
    fat = struct.pack(f"<{len(table)}I", *table).ljust(num_fat * _SECTOR, b"\xff")
    difat = [*range(fat_first, fat_first + num_fat)] + [_FREE] * (109 - num_fat)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack("<HHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, num_fat, directory_first,
                          0, _CUTOFF, mini_first, -(-len(mini_table) * 4 // _SECTOR), _END, 0,
                          difat[0])[:-4]  # fmt: skip
    header += struct.pack("<109I", *difat)
    return header + b"".join(sectors) + fat


def properties(values: Mapping[int, int] = {}, *, header: int = 32) -> bytes:
    """The properties of a message that have a fixed length, each as 64 bits."""
    rows = (struct.pack("<HHIQ", 0x0014, key, 6, value) for key, value in values.items())
    return bytes(header) + b"".join(rows)


def msg(
    subject: str, body: str, *, place: str = "", more: Mapping[str, bytes] = {}, sent: int = 0
) -> dict[str, bytes]:
    """The streams of a message, for `ole`."""
    texts = {0x0037: subject, 0x1000: body, 0x0C1A: "Ann Writer", 0x0C1F: "ann@example.org",
             0x0E04: "Bo Reader"}  # fmt: skip
    streams = {f"{place}__substg1.0_{key:04X}001F": text.encode("utf-16-le")
               for key, text in texts.items() if text}  # fmt: skip
    streams[f"{place}__properties_version1.0"] = properties(
        {0x0039: sent} if sent else {}, header=24 if place else 32
    )
    return streams | {place + name: data for name, data in more.items()}


def attachment(number: int, name: str, data: bytes) -> dict[str, bytes]:
    folder = f"__attach_version1.0_#{number:08X}/"
    return {
        f"{folder}__substg1.0_3707001F": name.encode("utf-16-le"),
        f"{folder}__substg1.0_37010102": data,
        f"{folder}__properties_version1.0": bytes(8),
    }


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def _zip(path: Path, members: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def _relations(targets: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_RELATIONS}">{rows}</Relationships>'


def xlsx(path: Path, sheets: Mapping[str, str], *, shared: Sequence[str] = ()) -> Path:
    """A workbook whose sheets are the inside of `sheetData`."""
    names = list(sheets)
    rows = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(names, 1)
    )
    targets = [("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(names) + 1)]
    targets += [("sharedStrings", "sharedStrings.xml"), ("styles", "styles.xml")]
    texts = "".join(f"<si><t>{text}</t></si>" for text in shared)
    styles = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    return _zip(path, {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": _relations([("officeDocument", "xl/workbook.xml")]),
        "xl/_rels/workbook.xml.rels": _relations(targets),
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>{rows}</sheets></workbook>',
        "xl/sharedStrings.xml": f'<sst xmlns="{_SHEET}">{texts}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{_SHEET}">{styles}</styleSheet>',
        **{
            f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{sheets[name]}</sheetData></worksheet>'
            for n, name in enumerate(names, 1)
        },
    })  # fmt: skip


def ods(path: Path, body: str) -> Path:
    """An OpenDocument spreadsheet whose tables are given."""
    names = ("office", "table", "text")
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names
    )
    content = f"<office:document-content {spaces}><office:body><office:spreadsheet>{body}</office:spreadsheet></office:body></office:document-content>"
    return _zip(path, {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": content,
        "META-INF/manifest.xml": "<manifest/>",
    })  # fmt: skip


_SLIDE = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    ' xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    f' xmlns:r="{_OFFICE}"'
)


def shape(*texts: str, kind: str = "") -> str:
    """A text box, or with a kind a placeholder."""
    place = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else "<p:nvPr/>"
    rows = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in texts)
    return f"<p:sp><p:nvSpPr>{place}</p:nvSpPr><p:txBody>{rows}</p:txBody></p:sp>"


def pptx(path: Path, slides: Sequence[str], *, notes: Mapping[int, str] = {}) -> Path:
    """Slides by their shapes; they are stored in reverse, as the order is in the relations."""
    count = len(slides)
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in range(1, count + 1))
    members = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": _relations([("officeDocument", "ppt/presentation.xml")]),
        "ppt/presentation.xml": f"<p:presentation {_SLIDE}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": _relations(
            [("slide", f"slides/slide{count - n}.xml") for n in range(count)]
        ),
        "docProps/core.xml": '<c xmlns:dc="urn:dc"><dc:title>The talk</dc:title></c>',
    }
    for number, shapes in enumerate(slides, 1):
        name = f"slide{count + 1 - number}.xml"
        members[f"ppt/slides/{name}"] = (
            f"<p:sld {_SLIDE}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        )
        if number in notes:
            members[f"ppt/slides/_rels/{name}.rels"] = _relations(
                [("notesSlide", f"../notesSlides/{name}")]
            )
            members[f"ppt/notesSlides/{name}"] = f"<p:notes {_SLIDE}>{notes[number]}</p:notes>"
    return _zip(path, members)
