"""A small set of SSML, read into a text that knows where each character came from.

| element | what it does |
|---|---|
| `speak`, `p`, `s` | the whole, a paragraph, a sentence; `xml:lang` holds inside |
| `break` | silence: `time="500ms"`, `time="2s"` (at most ten seconds), or `strength="medium"` |
| `say-as` | `interpret-as` as below, with `format` for dates |
| `sub` | `alias` is spoken instead |
| `phoneme` | `ph` in IPA; another `alphabet` is not supported |
| `prosody` | `rate`: `slow`, `90%`, `+10%`, `1.2`; pitch, volume and the rest are not supported |
| `emphasis` | spoken a little slower (`strong` 0.85, `moderate` 0.92), `reduced` a little faster |
| `voice`, `lang` | another voice by `name`, another language by `xml:lang` |

`say-as` reads by `interpret-as`:

| interpret-as | `text` | said |
|---|---|---|
| `characters`, `spell-out`, `verbatim` | `a1` | A one |
| `digits` | `2024` | two zero two four |
| `cardinal`, `number` | `1,234` | one thousand, two hundred and thirty-four |
| `ordinal` | `3` | third |
| `telephone` | `555-0100` | five five five, zero one zero zero |
| `date` with `format` (`mdy dmy ymd md dm my y ...`) | `4/5/2024` | as the date in full |
| `time`, `currency`, `fraction`, `unit`, `address` | `2:30pm` | by the language's own rules |
| `expletive` | anything | bleep |

What else is written is named once in the warnings; its text is spoken, its tags are not. Text that
is not meant to be heard (`desc`, `metadata`) is left out. A document type is refused, so nothing
outside the text is read and no entity grows. Nothing here recurs, however deep the elements are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from xml.parsers import expat

from anyrig.errors import InvalidInputError
from anyrig.speech.normalize import LANGUAGES, normalize
from anyrig.speech.normalize.words import digits, integer, ordinal
from anyrig.speech.source_text import STAND_IN, Mark, SourceText, SourceTextBuilder, VoiceStyle
from anyrig.text.tokens import Token, tokenize

_BEFORE = re.compile(r"[\s\ufeff]*(?:<\?xml[^>]{0,200}\?>)?\s*")
_SPACE = re.compile(r"\s*")
_OPENING = re.compile(r"<speak[\s>/]|<!DOCTYPE\s+speak[\s>\[]")
_TAG = re.compile(r"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_UNHEARD = frozenset({"desc", "metadata", "meta", "lexicon", "title"})
_KNOWN = frozenset(
    {"speak", "p", "s", "break", "say-as", "sub", "phoneme", "prosody", "emphasis", "voice", "lang"}
    | {"w", "token"}
)
_HINTS = {
    "mismatched tag": "Close each element, the last one opened first.",
    "undefined entity": "Only &amp; &lt; &gt; &quot; &apos; and numbers as &#160; are supported.",
    "no element found": "Close each element that was opened.",
    "unclosed token": "Close each tag with >, and write < in text as &lt;.",
}

LONGEST_S = 10.0
"""A break is no longer than this, so that a slip of the pen does not make an hour of silence."""
EMPHASIS = {"strong": 0.85, "moderate": 0.92, "none": 1.0, "reduced": 1.08}
_RATES = {
    "x-slow": 0.6, "slow": 0.8, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.5,
}  # fmt: skip
_STRENGTHS = {
    "none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.2,
}  # fmt: skip
_SLOWEST, _FASTEST = 0.25, 4.0
_TIME = re.compile(r"\s*\+?(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*(ms|s)\s*")
_RATE = re.compile(r"\s*([+-]?)(\d{1,6}(?:\.\d{0,6})?|\.\d{1,6})\s*(%?)\s*")
_BLEEPS = {"es": "bip", "fr": "bip", "it": "bip", "de": "piep"}
_SPELLED = frozenset({"characters", "character", "spell-out", "verbatim"})
_BY_RULES = frozenset(
    "cardinal number ordinal time currency fraction unit address name net money".split()
)
_FORMATS = frozenset("mdy dmy ymd md dm ym my y m d yyyymmdd".split())
_NUMBER = re.compile(r"\d{1,30}")
_GROUPING = re.compile(r"(?<=\d)[,. ](?=\d{3})")
_MAX_CHARS = 400


def is_ssml(text: str) -> bool:
    """Whether a text begins as SSML does."""
    begin = _BEFORE.match(text)
    at = begin.end() if begin is not None else 0
    # Not one pattern for all: Python before 3.11.5 goes wrong where such a one gives nothing back.
    while text.startswith("<!--", at):
        end = text.find("-->", at + 4)
        if end < 0:
            return False
        space = _SPACE.match(text, end + 3)
        at = space.end() if space is not None else end + 3
    return _OPENING.match(text, at) is not None


def read_ssml(source: str) -> SourceText:
    """The text of an SSML document; InvalidInputError says where it is broken."""
    return _SsmlReader(source).read()


@dataclass(frozen=True)
class _Open:
    """An element whose end has not come yet."""

    style: VoiceStyle
    mark: Mark | None
    unheard: bool
    at: int
    """Where its text begins in the spoken text."""
    tag: int
    """Where its tag begins in the source."""


_OUTSIDE = _Open(VoiceStyle(), None, False, 0, 0)


class _SsmlReader:
    """Follows expat's events: the characters up to an event are put down when it comes."""

    def __init__(self, source: str) -> None:
        self.source = source
        # What XML forbids is hidden from the parser, and found again when the source is taken.
        # A byte-order mark before the first tag is such a thing as well.
        hidden = _FORBIDDEN.sub(" ", source)
        lead = len(hidden) - len(hidden.lstrip("\ufeff \t\r\n"))
        self.data = hidden[lead:].encode("utf-8")
        self.out = SourceTextBuilder(source)
        self.out.omit(0, lead, "space" if not source[:lead].strip() else "control")
        self.open: list[_Open] = [_OUTSIDE]
        self.parser = expat.ParserCreate("utf-8")
        self.bytes_done, self.position = 0, lead
        self.pending, self.pending_from, self.reading = "markup", lead, ""

    def read(self) -> SourceText:
        """Go through the whole document."""
        parser = self.parser
        parser.StartElementHandler = self._open_element
        parser.EndElementHandler = self._close_element
        parser.CharacterDataHandler = lambda data: self._begin_piece("text", data)
        parser.CommentHandler = lambda _: self._begin_piece("comment")
        parser.ProcessingInstructionHandler = lambda *_: self._begin_piece("markup")
        parser.StartCdataSectionHandler = lambda: self._begin_piece("markup")
        parser.EndCdataSectionHandler = lambda: self._begin_piece("markup")
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        try:
            parser.Parse(self.data, True)
        except expat.ExpatError as error:
            raise self._build_error(error) from None
        self._flush(len(self.source))
        return self.out.build()

    # Where we are in the source

    def _begin_piece(self, kind: str, reading: str = "") -> None:
        index = self.parser.CurrentByteIndex
        self.position += len(self.data[self.bytes_done : index].decode("utf-8"))
        self.bytes_done = index
        self._flush(self.position)
        self.pending, self.pending_from, self.reading = kind, self.position, reading

    def _flush(self, end: int) -> None:
        start, self.pending_from = self.pending_from, end
        raw = self.source[start:end]
        if self.pending == "comment":
            self.out.omit(start, end, "comment")
        elif self.pending == "markup":
            self.out.omit(start, end, "markup")
        elif self.open[-1].unheard:
            self.out.omit(start, end, "unsupported")
        elif raw.startswith("&") and raw != self.reading:
            self.out.take(start, end, self.reading)
        else:
            self.out.take_run(start, end)

    # Elements

    def _open_element(self, name: str, given: dict[str, str]) -> None:
        self._begin_piece("markup")
        above = self.open[-1]
        if len(self.open) == 1 and name != "speak":
            raise InvalidInputError(
                f"SSML begins with <speak>, not with <{name}>", hint="Put <speak> around it."
            )
        if name not in _KNOWN:
            effect = "left out" if name in _UNHEARD else "its text is spoken"
            self.out.warn(f"SSML: <{name}> is not supported; {effect}")
        style = self._apply_style(name, given, above.style)
        unheard = name in _UNHEARD or above.unheard
        mark = self._find_mark(name, given)
        self._add_edge(name)
        if name == "break":
            self.out.breaks.append((self.out.length, self._read_break(given)))
        self.open.append(_Open(style, mark, unheard, self.out.length, self.position))
        self.out.set_style(style)

    def _close_element(self, name: str) -> None:
        closed = self.open[-1]
        index = self.parser.CurrentByteIndex
        nothing_inside = (self.pending, self.pending_from) == ("markup", closed.tag)
        if closed.mark and nothing_inside:
            self._stand_in(closed.tag)
        if self.data[index : index + 2] == b"</":
            self._begin_piece("markup")
        self.open.pop()
        if closed.mark and self.out.length > closed.at:
            self.out.marks.append(replace(closed.mark, start=closed.at, end=self.out.length))
        self._add_edge(name)
        self.out.set_style(self.open[-1].style)

    def _stand_in(self, tag: int) -> None:
        """An element without text is spoken in the place of its tag."""
        found = _TAG.match(self.source, tag)
        if found and not self.open[-1].unheard:
            self.out.take(tag, found.end(), STAND_IN)
            self.pending_from = found.end()

    def _add_edge(self, name: str) -> None:
        if name == "s":
            self.out.edges.append((self.out.length, "sentence"))
        elif name in ("p", "speak"):
            self.out.edges.append((self.out.length, "paragraph"))

    # What they ask for

    def _apply_style(self, name: str, given: dict[str, str], style: VoiceStyle) -> VoiceStyle:
        language = given.get("xml:lang", "") or (given.get("language", "") * (name == "voice"))
        if language.strip():
            style = replace(style, language=language.strip().lower().replace("_", "-"))
        if name == "prosody":
            return self._apply_prosody(given, style)
        if name == "emphasis":
            level = given.get("level", "moderate")
            if level not in EMPHASIS:
                self.out.warn(f"SSML: the unknown emphasis {level!r} has no effect")
            return replace(style, rate=bound_rate(style.rate * EMPHASIS.get(level, 1.0)))
        if name == "voice" and not given.get("name", "").strip():
            self.out.warn("SSML: <voice> is chosen by name; its other attributes have no effect")
        elif name == "voice":
            return replace(style, voice=given["name"].strip())
        return style

    def _apply_prosody(self, given: dict[str, str], style: VoiceStyle) -> VoiceStyle:
        for other in sorted(given.keys() - {"rate", "xml:lang"}):
            self.out.warn(f"SSML: {other} of <prosody> is not supported and has no effect")
        factor = parse_rate(given.get("rate", "medium"))
        if factor is None:
            self.out.warn(f"SSML: invalid rate {given['rate']!r}; write 90% or slow")
            return style
        return replace(style, rate=bound_rate(style.rate * factor))

    def _read_break(self, given: dict[str, str]) -> float:
        seconds = parse_silence(given.get("time"), given.get("strength"))
        if seconds is None:
            self.out.warn("SSML: invalid <break>; write time=500ms or strength=medium")
            return 0.4
        if seconds > LONGEST_S:
            self.out.warn(f"SSML: a break is limited to {LONGEST_S:g} s")
        return min(LONGEST_S, seconds)

    def _find_mark(self, name: str, given: dict[str, str]) -> Mark | None:
        """How an element's text is read, where it says so."""
        if name == "sub" and given.get("alias", "").strip():
            return Mark(0, 0, say=given["alias"].strip(), fixed=False)
        if name == "say-as" and given.get("interpret-as", "").strip():
            interpretation = f"{given['interpret-as'].strip()} {given.get('format', '')}"
            return Mark(0, 0, interpret=interpretation.strip().lower())
        if name != "phoneme":
            return None
        alphabet, sounds = given.get("alphabet", "ipa"), given.get("ph", "").strip()
        if alphabet != "ipa":
            self.out.warn(f"SSML: the alphabet {alphabet!r} is not supported; the word is read")
        elif sounds and "]" not in sounds and "[" not in sounds:
            return Mark(0, 0, ipa=sounds)
        return None

    # What is refused

    def _refuse_doctype(self, *_: object) -> None:
        raise InvalidInputError(
            "SSML with a document type (<!DOCTYPE ...>) is not accepted",
            hint="Remove the <!DOCTYPE ...>; entities and files outside the text are never read.",
        )

    def _build_error(self, error: expat.ExpatError) -> InvalidInputError:
        start = len(self.source) - len(self.data.decode("utf-8"))
        before = self.data[: max(0, self.parser.ErrorByteIndex)].decode("utf-8", "ignore")
        place = self.source[: start + len(before)]
        line, column = place.count("\n") + 1, len(place) - place.rfind("\n")
        words = expat.errors.messages[error.code]
        return InvalidInputError(
            f"invalid SSML at line {line}, column {column}: {words}",
            hint=_HINTS.get(words, "Write & in text as &amp; and < as &lt;, and quote attributes."),
        )


# Values of attributes


def parse_silence(time: str | None, strength: str | None) -> float | None:
    """How long a break is; None when it is not understood."""
    if time is None:
        return _STRENGTHS.get(strength or "medium")
    found = _TIME.fullmatch(time)
    return float(found[1]) * (0.001 if found[2] == "ms" else 1.0) if found else None


def parse_rate(written: str) -> float | None:
    """How much faster: a word, `90%` of the usual, `+10%` above it, or a factor."""
    if written.strip() in _RATES:
        return _RATES[written.strip()]
    found = _RATE.fullmatch(written)
    if not found:
        return None
    value = float(found[2]) * (0.01 if found[3] else 1.0)
    if found[1]:
        value = 1.0 + (value if found[1] == "+" else -value)
    return value if value > 0 else None


def bound_rate(factor: float) -> float:
    """A rate that a voice can still be asked for."""
    return round(min(_FASTEST, max(_SLOWEST, factor)), 4)


# Say-as


def say_as(text: str, interpret: str, language: str) -> list[Token] | None:
    """What is said for an element's text, or None when there is no such way of reading.

    Args:
        text: what stands in the element.
        interpret: `interpret-as`, and `format` after a space.
        language: whose words are used.
    """
    kind, _, form = interpret.partition(" ")
    base = language.partition("-")[0]
    text = text.strip()
    if kind in _SPELLED:
        return list(_spell(text[:_MAX_CHARS], base))
    if kind == "digits":
        return [_build_token(digits(text[:_MAX_CHARS], base))]
    if kind in ("cardinal", "number") and text.isdecimal():
        return [_build_token(integer(text, base))]
    if kind == "ordinal" and (number := _NUMBER.search(_GROUPING.sub("", text))):
        return [_build_token(ordinal(int(number[0]), base))]
    if kind == "telephone":
        groups = [digits(group, base) for group in re.findall(r"\d+", text[:_MAX_CHARS])]
        return [_build_token("plus " * text.startswith("+") + ", ".join(groups))]
    if kind == "expletive":
        return [_build_token(_BLEEPS.get(base, "bleep"))]
    if kind == "date":
        text = _expand_date(text, form.strip(), base)
    elif kind not in _BY_RULES:
        return None
    return tokenize(text, language)


def _build_token(words: str) -> Token:
    return Token(0, 0, "text", words)


def _spell(text: str, language: str) -> Iterator[Token]:
    """Each character by its name; letters in a row are one abbreviation."""
    from anyrig.text.values import Letters

    for is_letter, run in groupby(text, str.isalpha):
        if is_letter:
            letters = "".join(run).upper()
            known = language in LANGUAGES
            yield Token(0, 0, "letters", Letters(letters) if known else " ".join(letters))
            continue
        for one in run:
            if one.isdecimal():
                yield _build_token(f" {digits(one, language)} ")
            elif not one.isspace():
                # A sign by itself is often no word; between words the rules may know its name.
                name = normalize(f"x {one} x", language).strip("x ").strip()
                yield _build_token(f" {name} " if any(map(str.isalnum, name)) else " ")


def _expand_date(text: str, form: str, language: str) -> str:
    """A date of figures as it is written in full; what is none stays as it is."""
    form = "ymd" if form == "yyyymmdd" else form
    parts = re.findall(r"\d+", text)
    if len(parts) == 1 and len(parts[0]) == 8 and form in ("", "ymd"):
        parts, form = [parts[0][:4], parts[0][4:6], parts[0][6:]], "ymd"
    if form not in _FORMATS or len(parts) != len(form) or len(form) < 2:
        return text
    found = {letter: int(part[:6]) for letter, part in zip(form, parts, strict=True)}
    year, month, day = found.get("y"), found.get("m"), found.get("d")
    return _write_date(year, month, day, language) or text


def _write_date(year: int | None, month: int | None, day: int | None, language: str) -> str:
    """The date with its month in words, as the language writes it."""
    from datetime import date

    from babel import UnknownLocaleError
    from babel.dates import format_date, format_skeleton

    skeleton = ("y" if year else "") + ("MMMM" if month else "") + ("d" if day else "")
    try:
        when = date(year or 2000, month or 1, day or 1)
        if skeleton == "yMMMMd":
            return str(format_date(when, "long", locale=language))
        return str(format_skeleton(skeleton, when, locale=language))
    except (ValueError, UnknownLocaleError, KeyError):
        return ""
