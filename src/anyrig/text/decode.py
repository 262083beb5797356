"""Bytes as text, whatever wrote them: UTF-8 first, then marks and guesses; all or an error."""

from __future__ import annotations

import codecs
import logging
import re
from pathlib import Path

from anyrig.errors import InvalidInputError

log = logging.getLogger(__name__)
_FEW_BAD = 0.001  # damaged characters of a text that is UTF-8 all the same
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = frozenset("en fr es de it pt nl da sv no nb nn fi is ca gl eu ga af oc".split())
_WESTERN_SIGNS = frozenset(
    "àâäáãåæçèéêëìíîïñòóôöõøœùúûüýÿßðþ"
    "ÀÂÄÁÃÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÖÕØŒÙÚÛÜÝŸÐÞ"
    "ªº«»¡¿“”‘’‚„–—…•·°§©®™€£¢¥½¼¾×÷µ±²³¹¶ \xa0\xad†‡´¨"
)
# Guessers mix these up, as most of their bytes are Cyrillic letters in each. The first wins a draw.
_CYRILLIC = ("cp1251", "koi8_r", "cp866", "mac_cyrillic", "iso8859_5", "cp855", "koi8_u", "cp1125")
PDF_HEAD = re.compile(rb"[\xef\xbb\xbf \t\r\n]*%PDF-\d\.\d[ \t]*(?:[\r\n]|$)")
"""The first line of a PDF; a text that begins with the name of the format goes on in its line."""
# What people give by mistake, and what it is.
_OTHERS = (
    (b"PK\x03\x04", "a zip archive, as EPUB and docx are"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
)


def check_charset(name: str) -> str:
    """The name of an encoding that a file declares; `LookupError` for what is none of a text's.

    Punycode and its like are codes for names; on a long text they take the square of its length.
    """
    found = codecs.lookup(name).name
    if found.startswith(("punycode", "idna", "unicode", "raw")):
        raise LookupError(name)
    return found


def read_text(path: Path, what: str, *, hint: str) -> str:
    """A small file that a person wrote for anyrig: UTF-8, or an error that says why not.

    Args:
        path: of the file.
        what: it is, for errors: `the lexicon`.
        hint: what to give instead.
    """
    try:
        if kind := _describe_other(path):
            reason = f"it is {kind}"
        else:
            return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise InvalidInputError(f"{what} {path} cannot be read: {reason}", hint=hint)


def read_plain_text(path: Path) -> str:
    """A text file or a pipe, whatever its encoding; a device may never end, and is refused."""
    if not path.exists():
        raise InvalidInputError(f"no such file: {path}", hint="Check the path; - reads stdin.")
    if kind := _describe_other(path):
        raise InvalidInputError(f"{path} is {kind}, not a text file", hint="Pass a text file.")
    return decode(path.read_bytes(), str(path))


def _describe_other(path: Path) -> str:
    """What a path is that can be no text file; empty if it is one, a pipe, or missing."""
    if not path.exists() or path.is_file() or path.is_fifo():
        return ""
    return "a folder" if path.is_dir() else "a device"


def decode(data: bytes, name: str) -> str:
    """The text in some bytes.

    Args:
        data: the whole of it.
        name: of the file, for errors.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data, encoding, name)
    other = next((what for magic, what in _OTHERS if data.startswith(magic)), "")
    if PDF_HEAD.match(data):
        other = "a PDF"
    if other:
        raise InvalidInputError(f"{name} is {other}, not plain text", hint="Pass a text file.")
    if text := _wide(data):
        return text
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _guess(data, name, error.start)


def _wide(data: bytes) -> str:
    """UTF-16 without its mark, which may be sound UTF-8 full of zeros; else nothing.

    Its spaces and line ends have one byte of zero, always on the same side; and either half of
    its bytes are zero, or most are none that ASCII has.
    """
    head = data[:4096]
    zeros = head[0::2].count(0), head[1::2].count(0)
    if len(data) % 2 or min(zeros) or 40 * max(zeros) < len(head):
        return ""
    plain = sum(32 <= byte < 127 or byte in (0, 9, 10, 13) for byte in head)
    if 5 * max(zeros) < len(head) and plain > 0.8 * len(head):
        return ""
    try:
        text = data.decode("utf-16-be" if zeros[0] else "utf-16-le")
    except UnicodeDecodeError:
        return ""
    sample = text[:4096]
    odd = sum(not (sign.isprintable() or sign.isspace()) for sign in sample)
    return text if odd * 50 <= len(sample) else ""


def _strict(data: bytes, encoding: str, name: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{name} is damaged: its mark says {encoding}, and byte {error.start} does not fit",
            hint="Save it again as UTF-8.",
        ) from error


def _guess(data: bytes, name: str, odd: int) -> str:
    """Text that is no UTF-8, judged by what is around the first byte that tells."""
    if text := _western(data, odd):
        log.info("%s reads as Windows-1252", name)
        return text
    from charset_normalizer import from_bytes

    start = max(0, odd - 2_000) // 4 * 4
    best = from_bytes(data[start : start + 200_000]).best()
    if best is None or b"\x00" in data[:4096] and not best.encoding.startswith("utf"):
        return _repair(data, name)
    encoding = best.encoding
    if encoding in _CYRILLIC:
        encoding = max(_CYRILLIC, key=lambda one: _sense(data[start : start + 20_000], one))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return _repair(data, name)
    log.info("%s reads as %s", name, encoding)
    return text


def _sense(data: bytes, encoding: str) -> float:
    """How much a text looks like Russian or its kin: small letters, great ones before them."""
    words = re.findall(r"[\u0400-\u04ff]+", text := data.decode(encoding, "replace"))
    strange = sum(sign > "\x7f" and not "\u0400" <= sign <= "\u04ff" for sign in text)
    sound = sum(len(word) for word in words if word[1:].islower() or word.isupper())
    rare = sum(sign > "\u044f" and sign not in "ёіїєґў" for sign in text)
    return sound - strange - rare


def _western(data: bytes, odd: int) -> str:
    """Windows-1252, what most old texts in Latin letters are in, if it makes sense; else nothing.

    Guessers take its short texts for Baltic or Central European ones. So the signs it gives must be
    those that Western texts have, and the language must be one that was written with it.
    """
    if b"\x00" in data[:4096]:
        return ""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    strange = [sign for sign in text if sign > "\x7f"]
    if sum(sign in _WESTERN_SIGNS for sign in strange) < 0.98 * len(strange):
        return ""
    if len(strange) > 0.35 * len(text):
        return ""
    from anyrig.text.language import detect

    around = text[max(0, odd - 2_000) : odd + 4_000]
    return text if detect(around, default="en").language in _WESTERN else ""


def _repair(data: bytes, name: str) -> str:
    """UTF-8 with a few damaged bytes, which are left out; anything else is no text."""
    mended = data.decode("utf-8", "replace")
    if "\x00" in mended or mended.count("\ufffd") > _FEW_BAD * len(mended):
        raise InvalidInputError(f"{name} is not text in a known encoding", hint="Save it as UTF-8.")
    log.warning("%s is UTF-8 with a few damaged bytes; they are left out", name)
    return mended
