"""RTF as a page of HTML: paragraphs by style, tables, lists, footnotes, text boxes and metadata.

Read here and not through a library: those at hand drop footnotes, break characters outside the
first plane, and put link targets into the text. Hidden and deleted text, headers and footers are
left out.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lxml import etree

from anyrig.errors import InvalidInputError
from anyrig.text.document import Document, Metadata
from anyrig.text.formats import html
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import ElementWriter
from anyrig.text.formats.plain import read_content

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_MOST_TOKENS = 3_000_000  # a long novel from Word has under one million

_LONGEST_NAME, _LONGEST_INFO = 200, 20_000
"""Characters of a style's name, and of what the file says of itself: they come one by one."""


def read(path: Path, limits: Limits) -> Document:
    """An RTF file as a document."""
    data = read_content(path, limits).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not data.startswith(b"{\\rtf"):
        raise InvalidInputError(
            f"{path.name} is not an RTF file", hint="Pass an RTF file, or rename it."
        )
    reader = _RtfReader()
    reader.take(data.decode("latin-1"))
    info = {name: " ".join(text.split()) for name, text in reader.info.items()}
    about = Metadata(
        title=info.get("title", ""),
        authors=tuple(part.strip() for part in info.get("author", "").split(";") if part.strip()),
        description=info.get("doccomm", ""),
        publisher=info.get("company", ""),
        subjects=tuple(
            part.strip() for part in info.get("keywords", "").split(",") if part.strip()
        ),
    )
    document = html.build_document(reader.body, path.name, "rtf", about)
    return replace(document, warnings=tuple(reader.warnings))


@dataclass(frozen=True)
class _State:
    """What holds inside a group."""

    skip: bool = False
    hidden: bool = False
    target: str = ""
    """Where text goes if not into a paragraph: `style`, `fonts`, or a name of the info group."""
    note: str = ""
    font: int = -1
    skipped_after: int = 1
    """Characters that stand in for a Unicode one, after it."""
    starred: bool = False


@dataclass
class _RtfParagraph:
    text: ElementWriter = field(default_factory=lambda: ElementWriter(etree.Element("p")))
    level: int = 0
    item: bool = False
    in_table: bool = False


class _RtfReader:
    """One file on its way to blocks."""

    def __init__(self) -> None:
        self.body = etree.Element("body")
        self.info: dict[str, str] = {}
        self.warnings: list[str] = []
        self._state = _State()
        self._stack: list[_State] = []
        self._encoding = "cp1252"
        self._fonts: dict[int, str] = {}
        self._styles: dict[int, int] = {}
        self._style, self._style_name = 0, ""
        self._font = 0
        self._bytes = bytearray()
        self._pending = 0
        self._open = _RtfParagraph()
        self._outer: list[_RtfParagraph] = []
        self._notes: list[Element] = []
        self._num_notes = 0
        self._table = etree.Element("table", role="table")
        self._cells: list[Element] = []

    def take(self, text: str) -> None:
        """Read the whole file."""
        at = num_tokens = 0
        while at < len(text):
            num_tokens += 1
            if num_tokens > _MOST_TOKENS:
                raise InvalidInputError(
                    f"the file has more than {_MOST_TOKENS:,} control words",
                    hint="Save it as docx, or split it.",
                )
            found = TOKEN.match(text, at)
            if found is None:
                break
            at = found.end()
            word, number, code, symbol, brace, plain = found.groups()
            if word == "bin":
                at += max(int(number or 0), 0)
            elif word:
                self._word(word, int(number) if number else None)
            elif code or plain:
                self._add_bytes(bytes.fromhex(code) if code else plain.encode("latin-1"))
            elif symbol:
                self._symbol(symbol)
            elif brace and not self._brace(brace):
                break
        self._flush()
        if self._stack:
            self.warnings.append("the file ends in the middle; what there is of it was read")
        self._end_paragraph()
        self._end_table()

    # Groups

    def _brace(self, brace: str) -> bool:
        """A group opens or closes; False after the last."""
        self._flush()
        self._pending = 0
        if brace == "{":
            self._stack.append(self._state)
            self._state = (
                replace(self._state, starred=False) if self._state.starred else self._state
            )
            return True
        before = self._stack.pop() if self._stack else _State()
        if self._state.note and self._state.note != before.note:
            self._end_note()
        if self._state.target == "style":
            self._end_style()
        self._state = before
        return bool(self._stack)

    def _end_note(self) -> None:
        self._end_paragraph()
        self._open = self._outer.pop() if self._outer else _RtfParagraph()

    def _end_style(self) -> None:
        found = re.match(
            r"(?:heading|überschrift|titre|título|titolo)\s*([1-9])\b", self._style_name
        )
        if found:
            self._styles[self._style] = int(found[1])
        elif self._style_name.strip(" ;") == "title":
            self._styles[self._style] = 1
        self._style_name = ""

    # Words

    def _word(self, word: str, number: int | None) -> None:
        self._flush_unless_skipping(word)
        if word == "u":
            self._unicode(number)
        elif word in SIGNS:
            self._say(SIGNS[word])
        elif word in ("par", "sect", "cell", "nestcell", "row", "nestrow"):
            self._ends(word)
        elif not (self._destination(word) or self._character(word, number)):
            self._paragraph_word(word, number)

    def _flush_unless_skipping(self, word: str) -> None:
        self._flush()
        if word != "u" and self._pending:
            self._pending -= 1

    def _destination(self, word: str) -> bool:
        """A word that says what its group is."""
        state = self._state
        if word in TEXT_IN_LEFT_OUT:
            self._state = replace(state, skip=False, target="")
        elif word == "footnote" and not state.skip:
            self._begin_note()
        elif word in LISTS:
            self._open.item = True
            self._state = replace(state, skip=True)
        elif word == "fonttbl" or word == "stylesheet":
            self._state = replace(state, target="fonts" if word == "fonttbl" else "style")
        elif word == "info":
            self._state = replace(state, target="info")
        elif state.target == "info" and word in INFO:
            self._state = replace(state, target=word)
        elif word in LEFT_OUT or (state.starred and word not in ("shpinst", "cs", "s", "ts")):
            self._state = replace(state, skip=True, starred=False)
        else:
            return False
        return True

    def _begin_note(self) -> None:
        self._num_notes += 1
        name = f"note-{self._num_notes}"
        reference = etree.Element("a", href=f"#{name}", role="doc-noteref")
        reference.text = str(self._num_notes)
        self._open.text.append(reference)
        self._outer.append(self._open)
        self._open = _RtfParagraph()
        self._state = replace(self._state, note=name, hidden=False)

    def _character(self, word: str, number: int | None) -> bool:
        """A word on the characters that follow."""
        value = 0 if number is None else number
        if word == "f":
            self._state = replace(self._state, font=value)
            self._font = value
        elif word == "fcharset":
            self._fonts[self._font] = charset(value)
        elif word == "uc":
            self._state = replace(self._state, skipped_after=min(max(value, 0), 16))
        elif word in ("v", "deleted"):
            self._state = replace(self._state, hidden=number != 0)
        elif word == "plain":
            self._state = replace(self._state, hidden=False, font=-1)
        elif word in ("ansi", "mac", "pc", "pca", "ansicpg"):
            self._encoding = code_page(word, value) or self._encoding
        else:
            return False
        return True

    def _paragraph_word(self, word: str, number: int | None) -> None:
        """A word on the paragraph as a whole, or on a style that is being told."""
        value = 0 if number is None else number
        if self._state.target == "style":
            if word == "s":
                self._style = value
            elif word == "outlinelevel" and 0 <= value < 9:
                self._styles.setdefault(self._style, value + 1)
        elif self._state.skip:
            return
        elif word == "pard":
            self._open.level, self._open.in_table = 0, False
        elif word == "s":
            self._open.level = self._styles.get(value, 0)
        elif word == "outlinelevel":
            self._open.level = value + 1 if 0 <= value < 9 else 0
        elif word == "intbl":
            self._open.in_table = True
        elif word == "ls" and value > 0:
            self._open.item = True

    # Text

    def _symbol(self, symbol: str) -> None:
        self._flush()
        if symbol == "*":
            self._state = replace(self._state, starred=True)
        elif symbol in "\r\n":
            self._ends("par")
        else:
            self._say(SYMBOLS.get(symbol, ""))

    def _add_bytes(self, data: bytes) -> None:
        if self._pending:
            cut = min(self._pending, len(data))
            self._pending -= cut
            data = data[cut:]
        self._bytes += data

    def _unicode(self, number: int | None) -> None:
        if number is not None:
            self._say(chr(number & 0xFFFF))
            self._pending = self._state.skipped_after

    def _flush(self) -> None:
        if not self._bytes:
            return
        data, self._bytes = bytes(self._bytes), bytearray()
        encoding = self._fonts.get(self._state.font, "") or self._encoding
        try:
            self._say(data.decode(encoding, "replace"))
        except (LookupError, UnicodeError):
            self._say(data.decode("cp1252", "replace"))

    def _say(self, text: str) -> None:
        state = self._state
        if state.skip or not text:
            return
        if state.target == "style":
            if len(self._style_name) < _LONGEST_NAME:
                self._style_name += text.lower()
        elif state.target in INFO:
            before = self.info.get(state.target, "")
            if len(before) < _LONGEST_INFO:
                self.info[state.target] = before + text
        elif not state.target and not state.hidden:
            self._open.text.write(text)

    # Paragraphs

    def _ends(self, word: str) -> None:
        if self._state.skip or self._state.target:
            return
        if word in ("cell", "nestcell"):
            self._cells.append(self._open.text.close("td"))
            self._open = _RtfParagraph(in_table=True)
        elif word in ("row", "nestrow"):
            self._end_row()
        elif self._open.in_table and not self._state.note:
            self._open.text.write(" ")  # a paragraph inside a cell
        else:
            self._end_paragraph()

    def _end_paragraph(self) -> None:
        ended, note = self._open, self._state.note
        self._open = _RtfParagraph(level=ended.level)
        tag = f"h{min(ended.level, 6)}" if ended.level else "li" if ended.item else "p"
        made = ended.text.close("p" if note else tag)
        if not "".join(map(str, made.itertext())).strip():
            return
        if note:
            self._notes.append(etree.Element("aside", role="doc-footnote", id=note))
            self._notes[-1].append(made)
            return
        if ended.level > 6:
            made.set("aria-level", str(ended.level))
        self._end_table()
        self.body.append(made)
        self._place_notes()

    def _end_row(self) -> None:
        if self._cells:
            etree.SubElement(self._table, "tr").extend(self._cells)
            self._cells = []

    def _end_table(self) -> None:
        self._end_row()
        table, self._table = self._table, etree.Element("table", role="table")
        if "".join(map(str, table.itertext())).strip():
            self.body.append(table)
            self._place_notes()

    def _place_notes(self) -> None:
        self.body.extend(self._notes)
        self._notes = []


TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+"
    r"|([^\\{}\r\n]+)|\\",
    re.DOTALL,
)
"""A word with its number, a byte, a sign, a brace, line ends that mean nothing, plain text."""
SIGNS = {
    "tab": " ", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "bullet": "•",
    "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": " ",
    "enspace": " ", "qmspace": " ", "softline": " ", "zwj": "\u200d", "zwnj": "\u200c",
    "column": " ", "page": " ",
}  # fmt: skip
SYMBOLS = {"~": " ", "_": "\u2011", "-": "", "{": "{", "}": "}", "\\": "\\", "\n": "", "\r": ""}
LEFT_OUT = frozenset(
    "colortbl pict header headerl headerr headerf footer footerl footerr footerf ftnsep ftnsepc"
    " ftncn aftnsep aftnsepc aftncn listtable listoverridetable revtbl rsidtbl generator xe rxe tc"
    " txe private datafield filetbl shprslt nonesttables themedata datastore"
    " latentstyles template atnid atnauthor annotation atnref fldinst".split()
)
"""Groups that are no text, whether or not they are marked as such."""
TEXT_IN_LEFT_OUT = frozenset("shptxt dptxbxtext".split())
"""Text boxes, which stand inside groups that are left out."""
INFO = frozenset("title author subject keywords doccomm company".split())
LISTS = frozenset("pntext listtext".split())
"""The sign before an item, made by the writing program."""
_CHARSETS = {
    77: "mac_roman", 78: "shift_jis", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk",
    136: "big5", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256",
    186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_PAGES = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}


def charset(number: int) -> str:
    """The encoding of a font's characters; empty if it is that of the whole file."""
    return _CHARSETS.get(number, "")


def code_page(word: str, number: int) -> str:
    """The encoding that the head of a file names; empty if it is none that is known."""
    if word != "ansicpg":
        return _PAGES.get(word, "")
    name = {65001: "utf-8", 10000: "mac_roman", 936: "gbk", 950: "big5"}.get(number, f"cp{number}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return ""
