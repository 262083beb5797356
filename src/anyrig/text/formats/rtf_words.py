"""The control words of RTF that matter to a text, and the encodings it names by number."""

from __future__ import annotations

import codecs
import re

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
