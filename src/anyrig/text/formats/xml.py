"""XML and HTML of others as a tree: nothing is fetched, nothing expands, nothing nests for ever.

    root = parse(data, name="content.opf", limits=limits)      XML, slightly broken or not
    root = page(data, name="chapter1.xhtml", limits=limits)    XHTML, else HTML as a browser has it

The document type is cut off before a parser sees it, and entities are put in here: HTML's own,
and short ones that the file declares itself. So `&nbsp;` is understood without any DTD, and an
entity made of entities is refused. The parser's own ceilings on depth stay (256 in XML, 2,048 in
HTML); what passes them is refused whole, since the parser would drop the rest in silence.
"""

from __future__ import annotations

import codecs
import html
import html.entities
import re
from typing import TYPE_CHECKING

from lxml import etree

from anyrig.errors import InvalidInputError
from anyrig.text.decode import check_charset
from anyrig.text.formats.limits import Limits

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_AGAIN = "Get another copy of the file, or convert it with another program first."
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\x00", "utf-16-le"),
    (b"\x00<", "utf-16-be"),
)
_DECLARED = re.compile(rb"""(?:encoding|charset)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""")
# Seven-bit encodings look like ASCII, so their word must be taken for it.
_SEVEN_BIT = ("iso2022_jp", "iso2022_kr", "hz")
_WESTERN = frozenset(
    "éèàçñüöäßíóáúêâôîïûùëãìòÉÈÀÇÑÜÖÄÍÓÁÚÊÂÔÎœŒæøåÆØÅ“”‘’—–…«»„°©®™£€§·•¿¡ªº½¼\u00a0\u00ad"
)
ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""What XML allows nowhere."""
_ENTITY = re.compile(
    r"&(?:(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][\w.-]{0,60});|([A-Za-z]{2,8})(?![\w;=]))?"
)
_DECLARATION = re.compile(
    r"""<!ENTITY\s+([\w.-]{1,60})\s+(?:"([^"]*)"|'([^']*)')\s*>""", re.IGNORECASE
)
_OWN = {"amp", "lt", "gt", "quot", "apos"}
_LONGEST_ENTITY = 2_000
_EMPTY = re.compile(r"<([A-Za-z][\w:.-]{0,60})((?:\s[^<>]*?)?)/>")
_MOST_ATTRIBUTES = 256
"""Of one tag: libxml2 looks through all of them for each."""
# A tag's name, with all that HTML takes for it, and an attribute as HTML reads one. What looks like
# a tag inside a comment or a value is held to the same, so that no quoting hides a tag.
_TAG_NAME = re.compile(r"<[A-Za-z][^\s/>]*+")
_TOO_MANY = re.compile(
    r"""(?:[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+)"""
    f"{{{_MOST_ATTRIBUTES + 1}}}"
)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())


def parse(data: bytes, *, name: str, limits: Limits) -> Element:
    """The root of an XML file; faults that can be mended are.

    Args:
        data: the whole of it.
        name: of the file, for errors.
        limits: of which `text_bytes` holds.
    """
    text = _prepare(data, name, limits, limits.tags)
    root = _parse(text, _xml_parser(recover=False), name)
    if root is None:
        root = _parse(_with_signs(text), _xml_parser(recover=True), name, last=True)
    if root is None:
        raise InvalidInputError(f"{name} is not valid XML", hint=_AGAIN)
    return root


def parse_page(data: bytes, *, name: str, limits: Limits) -> Element:
    """The root of a page: as XML if it is well formed, else as HTML; tags may have a namespace."""
    text = _prepare(data, name, limits, limits.page_tags)
    root = _parse(text, _xml_parser(recover=False), name, deep="html")
    if root is None:
        root = _html(text, name)
    # Before anyone takes it apart into words: those take many times its room.
    if len(text) > limits.characters and _num_characters(root) > limits.characters:
        raise InvalidInputError(
            f"{name} contains more than {limits.characters:,} characters of text", hint="Split it."
        )
    return root


def _num_characters(root: Element) -> int:
    return sum(len(text) for text in root.itertext())


def parse_page_text(text: str, *, name: str) -> Element:
    """The root of a page that is HTML, whatever it holds; an empty one has an empty root."""
    _check_attributes(text, name)
    return _html(text, name)


def _html(text: str, name: str) -> Element:
    text = ILLEGAL.sub("", text)
    if "<![CDATA[" in text:
        text = "".join(_show(piece) if plain else piece for piece, plain in _pieces(text))
    text = _EMPTY.sub(_open, re.sub(r"(?i)</br\s*>", "", text))
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, huge_tree=True, remove_comments=True, remove_pis=True
    )
    root = _parse(text, parser, name, last=True)
    return etree.Element("html") if root is None else root


def local_name(element: Element) -> str:
    """The name of an element without its namespace or prefix, in small letters; else empty."""
    tag = element.tag
    if not isinstance(tag, str):
        return ""  # a comment or an instruction
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


def read_text(element: Element, most: int) -> str:
    """The first characters of what an element says, its white space as one."""
    parts: list[str] = []
    left = 10_000 + 4 * most  # white space may go
    for text in element.itertext():
        parts.append(text[:left])
        left -= len(text)
        if left <= 0:
            break
    return " ".join("".join(parts).split())[:most]


def decode_page(data: bytes) -> str:
    """Mark-up as text, whatever it says of its encoding: UTF-8 where it fits, as it rarely lies."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace").lstrip("\ufeff")
    declared = _find_declared(data)
    if declared in _SEVEN_BIT:
        return data.decode(declared, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _guess_encoding(data, declared)


def _find_declared(data: bytes) -> str:
    found = _DECLARED.search(data[:2048])
    if not found:
        return ""
    try:
        return check_charset(found[1].decode("ascii"))
    except (LookupError, ValueError):
        return ""


def _guess_encoding(data: bytes, declared: str) -> str:
    """Bytes that are no UTF-8: what was declared if that fits, else the likeliest."""
    # Latin-1 fits everything; what is said to be it is nearly always Windows' own.
    wanted = "cp1252" if declared in ("iso8859-1", "ascii") else declared
    if wanted and not wanted.startswith("utf"):
        try:
            return data.decode(wanted)
        except (UnicodeError, LookupError):
            pass
    if _mostly_utf8(data):
        return data.decode("utf-8", "replace")
    if _reads_western(data[:200_000]):
        return data.decode("cp1252", "replace")
    from charset_normalizer import from_bytes

    best = from_bytes(data[:100_000]).best()
    return data.decode(best.encoding if best else "cp1252", "replace")


def _reads_western(data: bytes) -> bool:
    """Whether it is the commonest encoding by far, which guesses on short texts often miss."""
    high = bytes(byte for byte in data if byte > 127).decode("cp1252", "replace")
    letters = sum(chr(byte).isalpha() for byte in data if byte < 128)
    wanted = sum(sign in _WESTERN for sign in high)
    return len(high) < letters / 4 and wanted >= 0.97 * len(high)


def _mostly_utf8(data: bytes) -> bool:
    """Whether it is UTF-8 with a few bytes broken, not some other encoding."""
    high = sum(byte > 127 for byte in data[:200_000])
    broken = data[:200_000].decode("utf-8", "replace").count("\ufffd")
    return broken * 10 < high


def _prepare(data: bytes, name: str, limits: Limits, most_tags: int) -> str:
    if len(data) > limits.text_bytes:
        raise InvalidInputError(
            f"{name} is larger than {limits.text_bytes // 1_000_000} MB of mark-up",
            hint="No chapter is that long; split the file.",
        )
    text = ILLEGAL.sub("", decode_page(data)).lstrip()
    if text.count("<") > most_tags:
        raise InvalidInputError(
            f"{name} is made of more than {most_tags:,} tags", hint="Split it, or simplify it."
        )
    _check_attributes(text, name)
    if text.startswith("<?xml"):
        text = text[text.find("?>") + 2 :] if "?>" in text[:2000] else text[5:]
    text, entities = _without_doctype(text, name)
    return _with_entities(text, entities, name, limits) if "&" in text else text


def _check_attributes(text: str, name: str) -> None:
    for found in _TAG_NAME.finditer(text):
        if _TOO_MANY.match(text, found.end()):
            raise InvalidInputError(
                f"{name} has a tag with more than {_MOST_ATTRIBUTES} attributes", hint=_AGAIN
            )


def _without_doctype(text: str, name: str) -> tuple[str, dict[str, str]]:
    """The text without its document type, and the short entities that this declares."""
    head = text[:4096].upper()
    start = head.find("<!DOCTYPE")
    if start < 0 or re.search(r"<[A-Za-z_]", text[:start]):
        return text, {}
    end, bracket = text.find(">", start), text.find("[", start)
    if 0 <= bracket < end:
        closing = re.compile(r"\]\s*>").search(text, bracket)
        if not closing:
            raise InvalidInputError(f"{name} has a document type without an end", hint=_AGAIN)
        end = closing.end() - 1
    if end < 0:
        raise InvalidInputError(f"{name} has a document type without an end", hint=_AGAIN)
    declared = _declarations(text[start:end], name)
    return f"{text[:start]}{text[end + 1 :]}", declared


def _declarations(doctype: str, name: str) -> dict[str, str]:
    entities: dict[str, str] = {}
    for found in _DECLARATION.finditer(doctype):
        value = found[2] if found[2] is not None else found[3]
        plain = html.unescape(value)
        if len(value) > _LONGEST_ENTITY or "&" in plain.replace("& ", "") or "%" in value:
            raise InvalidInputError(
                f"{name} declares entities made of others or far too long, as in an entity bomb",
                hint=_AGAIN,
            )
        entities[found[1]] = plain
    return entities


def _with_entities(text: str, entities: dict[str, str], name: str, limits: Limits) -> str:
    """Named entities as characters; a bare `&` as `&amp;`. What is marked as plain stays."""
    room = max(1_000_000, limits.text_bytes // 8)

    def meant(found: re.Match[str]) -> str:
        nonlocal room
        made = _meaning(found, entities)
        room -= len(made)
        if room < 0:
            raise InvalidInputError(
                f"{name} grows without end when its entities are put in", hint=_AGAIN
            )
        return made

    return "".join(piece if plain else _ENTITY.sub(meant, piece) for piece, plain in _pieces(text))


def _meaning(found: re.Match[str], entities: dict[str, str]) -> str:
    key, loose = found[1], found[2]
    if loose:  # HTML knows some of them without their end
        value = html.entities.html5.get(loose)
        return f"&amp;{loose}" if value is None else _escape(value)
    if key is None:
        return "&amp;"
    if key[0] == "#":
        # As a browser has it: 128 to 159 are Windows' characters, and what is none is left out.
        return _escape(ILLEGAL.sub("", html.unescape(found[0])).replace("\ufffd", ""))
    if key in _OWN:
        return found[0]
    value = entities.get(key)
    if value is None:
        value = html.entities.html5.get(f"{key};")
    return f"&amp;{key};" if value is None else _escape(value)


def _escape(value: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return value.replace('"', "&quot;").replace("'", "&apos;")


def _pieces(text: str) -> list[tuple[str, bool]]:
    """The text cut at comments and CDATA, and whether a piece is one of those."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for found in re.finditer(r"<!--|<!\[CDATA\[", text):
        if found.start() < at:
            continue
        end = text.find("-->" if found[0] == "<!--" else "]]>", found.end())
        if end < 0:
            break  # without an end: the rest is text, looked through once
        pieces += [(text[at : found.start()], False), (text[found.start() : end + 3], True)]
        at = end + 3
    return [*pieces, (text[at:], False)]


def _show(piece: str) -> str:
    """CDATA as text: HTML takes it for a comment."""
    return _escape(piece[9:-3]) if piece.startswith("<![CDATA[") else ""


def _with_signs(text: str) -> str:
    """A `<` that begins no tag as text."""
    return re.sub(r"<(?=[\s\d=<])", "&lt;", text)


def _open(found: re.Match[str]) -> str:
    """`<a id="x"/>` as HTML has it: with an end, unless it is one that never has any."""
    if found[1].lower() in _VOID:
        return found[0]
    return f"<{found[1]}{found[2]}></{found[1]}>"


def _xml_parser(*, recover: bool) -> etree.XMLParser:
    return etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False,
        dtd_validation=False, attribute_defaults=False, huge_tree=False, recover=recover,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip


def _parse(
    text: str, parser: etree.XMLParser | etree.HTMLParser, name: str, *,
    last: bool = False, deep: str = "",
) -> Element | None:  # fmt: skip
    """The root, or None where this parser finds none."""
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except (etree.LxmlError, ValueError):
        root = None
    limit = [error for error in parser.error_log if "RESOURCE_LIMIT" in (error.type_name or "")]
    if limit and (last or not deep):
        raise InvalidInputError(
            f"{name} nests its elements too deep, or contains too long a value", hint=_AGAIN
        )
    return root
