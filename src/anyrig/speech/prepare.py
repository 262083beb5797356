"""From a text to a script: the segments that an engine is given, and what is left out.

    script = prepare("Dr. Lee paid $3.50.", SpeechOptions(languages=("en",)))
    script.segments[0].spoken  # Doctor Lee paid three dollars and fifty cents.

A paragraph is tokenized once; its tokens say where sentences end and what is read for each stretch
(`text/tokens.py`, `speech/normalize`). Where markup or the lexicon gives a reading, that is said
instead. Sentences are then cut and joined to what an engine takes at a time (`clauses.py`).

A pure function: the same text and options give the same script in any process. A segment's
utterance depends on its own words alone, seed included, so a change renders again only what it
touches.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Literal

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech import ssml
from anyrig.speech.clauses import SHORT_WORDS, Clause, SpokenSpan, cut_first, cut_long, join_short
from anyrig.speech.engine import Utterance
from anyrig.speech.language import (
    PARAGRAPH_WORDS,
    ParagraphLanguages,
    build_language_error,
    detect_languages,
    excerpt,
    match_language,
    name_language,
    use_language,
)
from anyrig.speech.lexicon import LayeredLexicon, Lexicon
from anyrig.speech.normalize import SpokenUnit, verbalize
from anyrig.speech.paragraphs import SpokenParagraph, find_source_paragraphs
from anyrig.speech.segment import Omission, OmissionKind, Pauses, Script, Segment, SegmentKind, Span
from anyrig.speech.source_text import (
    STAND_IN,
    Mark,
    SourceText,
    VoiceStyle,
    overlaps_any,
    read_plain,
    select_outermost,
)
from anyrig.text.language import num_words
from anyrig.text.tokens import Token, split_sentences, tokenize

_MIN_CHARS = 20
"""An utterance may be so long whatever an engine says."""
_COMBINING, _MAX_COMBINING = ("Mn", "Me"), 6
"""Categories of combining marks, and how many a letter may have; Tibetan has stacks of five."""
_MAY_COMBINE = re.compile("[\u0300-\u1fff\u20d0-\u20ff\u2c00-\U0010ffff]")
"""Blocks with combining marks: Latin letters and punctuation have none."""
_ROW = re.compile(r"\s+|\S++(?:[^\S\n\r]++\S++)*+")
_UNSAID = re.compile(rf"\[\[|\]\]|[{STAND_IN}\ud800-\udfff]")
_NO_IPA = "the engine does not support IPA: the words are read as written"


@dataclass(frozen=True)
class SpeechOptions:
    """What the caller wants, and what the engine can."""

    max_chars: int = 400
    """Spoken characters of an utterance (`EngineInfo.max_chars`)."""
    reads: Collection[str] = frozenset()
    """What the engine reads besides words (`EngineInfo.reads`): `ipa`, `acronyms`."""
    languages: tuple[str, ...] = ()
    """What it speaks; empty is anything."""
    language: str = "auto"
    """Of the text; `auto` detects it by paragraph."""
    default_language: str = "en"
    """What a text too short to tell is taken for."""
    voice: str = ""
    """For the main language, and for any other that `voices` does not name."""
    voices: Mapping[str, str] = field(default_factory=dict)
    """The voice for text in each language."""
    rate: float = 1.0
    """2.0 is twice as fast."""
    seed: int = 0
    """Another one gives other takes of every segment."""
    lexicon: Lexicon | LayeredLexicon = field(default_factory=Lexicon)
    pauses: Pauses = field(default_factory=Pauses)
    ssml: bool | Literal["auto"] = "auto"
    """Whether the text is SSML; `auto` looks whether it begins with <speak."""
    join_words: int = SHORT_WORDS
    """Sentences of so few words are joined with a neighbour."""
    seconds_per_character: float = 0.0
    """What the engine was measured to need, where the text is listened to while it is spoken: a
    long first sentence is then cut at punctuation, so that it is heard early. 0 cuts nothing."""
    on_step: Callable[[], None] | None = field(default=None, compare=False)
    """Called before each sentence; it may raise an error to stop."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_chars", max(_MIN_CHARS, self.max_chars))
        if not 0.25 <= self.rate <= 4.0:
            raise InvalidInputError(
                f"the rate must be between 0.25 and 4, not {self.rate:g}",
                hint="1 is the voice's own rate.",
            )


def prepare(text: str, options: SpeechOptions | None = None) -> Script:
    """The script of a text, plain or SSML.

    UnspeakableTextError when there is nothing in it that the engine can say.
    """
    options = options or SpeechOptions()
    is_ssml = ssml.is_ssml(text) if options.ssml == "auto" else options.ssml
    source = ssml.read_ssml(text) if is_ssml else read_plain(text)
    script = prepare_paragraphs(source, find_source_paragraphs(source), options)
    if not script.segments:
        raise UnspeakableTextError(
            "there is nothing to say in the text", hint="Pass a text with words or numbers in it."
        )
    return script


def prepare_paragraphs(
    source: SourceText, paragraphs: Sequence[SpokenParagraph], options: SpeechOptions
) -> Script:
    """The script of a text whose paragraphs are known; what lies between them is not spoken.

    It has no segments when there is nothing to say.
    """
    reader = _ParagraphReader(source, options)
    languages = reader.choose_languages(paragraphs)
    clauses: list[_StyledClause] = []
    for number, (paragraph, language) in enumerate(zip(paragraphs, languages, strict=True)):
        clauses += reader.read(paragraph, number, language)
    if clauses and options.seconds_per_character:
        first = clauses[0]
        parts = cut_first(first.clause, options.seconds_per_character)
        clauses[:1] = [replace(first, clause=part) for part in parts]
    segments = tuple(_build_segments(source, clauses, options))
    spoken_languages = tuple(dict.fromkeys(one.utterance.language for one in segments))
    omissions = tuple(_find_omissions(source, clauses))
    return Script(source.source, segments, omissions, tuple(reader.warnings), spoken_languages)


def compute_seed(words: str, seed: int) -> int:
    """The seed of an utterance, made of its words: it sounds the same wherever it stands."""
    data = f"{seed}\n{words}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "big") >> 1


def limit_marks(text: str) -> str:
    """A text without combining marks where a letter has more than any language writes.

    Engines that take marks one by one would say each of them, or fail.
    """
    if not _MAY_COMBINE.search(text):
        return text
    limited: list[str] = []
    for is_mark, run in groupby(text, lambda char: unicodedata.category(char) in _COMBINING):
        chars = "".join(run)
        if is_mark and len(chars) > _MAX_COMBINING:
            composed = unicodedata.normalize("NFC", (limited.pop() if limited else "") + chars)
            limited += [char for char in composed if unicodedata.category(char) not in _COMBINING]
        else:
            limited += chars
    return "".join(limited)


# Reading paragraphs


@dataclass(frozen=True)
class _StyledClause:
    """A clause with its voice, on its way to a segment."""

    clause: Clause
    style: VoiceStyle
    kind: SegmentKind
    paragraph: int


_MarkSpans = Sequence[tuple[Mark, SpokenSpan]]


class _ParagraphReader:
    """Makes clauses of the paragraphs of a text, and collects warnings."""

    def __init__(self, source: SourceText, options: SpeechOptions) -> None:
        self.source, self.options = source, options
        self.warnings = dict.fromkeys(source.warnings)
        self._main = ""
        """The language that the caller's voice is for."""
        self._marks = select_outermost(source.marks)
        self._mark_starts = [mark.start for mark in self._marks]
        self._style_starts = [position for position, _ in source.styles]
        self._breaks = sorted({position for position, _ in source.breaks})
        self._edges = {position for position, _ in source.edges}
        self._cuts = sorted(self._edges | set(self._breaks))

    def choose_languages(self, paragraphs: Sequence[SpokenParagraph]) -> Sequence[str]:
        """Of each paragraph; what markup names is not guessed, and tells nothing about the rest."""
        options = self.options
        chosen: ParagraphLanguages
        if options.language != "auto":
            chosen = use_language(options.language, options.languages, len(paragraphs))
        else:
            named = [self._style_at(paragraph.start).language for paragraph in paragraphs]
            texts = [self._unnamed_text(paragraph) for paragraph in paragraphs]
            default = options.default_language
            if not any(text.strip() for text in texts) and any(named):
                default = match_language(named[0], options.languages) or default
            chosen = detect_languages(texts, options.languages, default)
        self._main = chosen.main
        self.warnings.update(dict.fromkeys(chosen.warnings))
        return chosen.each

    def read(self, paragraph: SpokenParagraph, number: int, language: str) -> list[_StyledClause]:
        """All that is said of a paragraph, in order."""
        marks = self._read_marks(paragraph, language)
        runs = list(self._style_runs(paragraph, language))
        cuts = {start for start, _ in runs}
        cuts.update(_find_between(self._cuts, paragraph.start, paragraph.end))
        outside_marks = sorted(at for at in cuts if not _is_inside(at, marks))
        clauses = [
            _StyledClause(short, style, paragraph.kind, number)
            for clause, style in self._read_sentences(
                paragraph, marks, runs, outside_marks, language
            )
            for short in cut_long(clause, self.options.max_chars)
            if short.is_speakable
        ]
        return list(self._join_short(clauses))

    def _read_sentences(
        self, paragraph: SpokenParagraph, marks: _MarkSpans, runs: Sequence[tuple[int, VoiceStyle]],
        cuts: Sequence[int], language: str,
    ) -> Iterator[tuple[Clause, VoiceStyle]]:  # fmt: skip
        text = self.source.text
        starts = [start for start, _ in runs]
        mark_starts = [mark.start for mark, _ in marks]
        for start, end, tokens in _sentences(text, paragraph, marks, language):
            if self.options.on_step is not None:
                self.options.on_step()
            edges = [start, *_find_between(cuts, start, end), end]
            clauses: list[tuple[Clause, VoiceStyle]] = []
            for left, right in pairwise(edges):
                style = runs[max(0, bisect_right(starts, left) - 1)][1]
                own = marks[bisect_left(mark_starts, left) : bisect_left(mark_starts, right)]
                if len(edges) > 2 or style.language != language:
                    tokens = _tokenize(text, left, right, style.language)
                spans = self._read_tokens(tokens, left, right, own, style.language)
                clauses.append((Clause(spans, right == end or right in self._edges), style))
            yield from _merge_unspeakable(clauses)

    def _read_tokens(
        self, tokens: Sequence[Token], start: int, end: int, marks: _MarkSpans, language: str
    ) -> tuple[SpokenSpan, ...]:
        """The spans of a stretch, its marks with those given for them."""
        if not marks:
            return tuple(self._verbalize(tokens, language))
        if _have_crossing(tokens, [mark for mark, _ in marks]):
            edges = [start, *(at for mark, _ in marks for at in (mark.start, mark.end)), end]
            gaps = zip(edges[::2], edges[1::2], strict=True)
            tokens = [
                token
                for left, right in gaps
                for token in _tokenize(self.source.text, left, right, language)
            ]
        spans: list[SpokenSpan] = []
        position = start
        for mark, span in marks:
            spans += self._verbalize(_tokens_between(tokens, position, mark.start), language)
            spans.append(span)
            position = mark.end
        spans += self._verbalize(_tokens_between(tokens, position, end), language)
        return tuple(spans)

    def _verbalize(self, tokens: Sequence[Token], language: str) -> Iterator[SpokenSpan]:
        units = verbalize(tokens, language, self.options.reads)
        for (start, end), group in groupby(units, lambda unit: (unit.start, unit.end)):
            yield self._build_span(start, end, list(group))

    def _build_span(self, start: int, end: int, units: Sequence[SpokenUnit]) -> SpokenSpan:
        """What is said for units of one place."""
        if len(units) == 1 and units[0].kind == "words":
            text = _UNSAID.sub(" ", units[0].text)
            return SpokenSpan(start, end, text, plain=units[0].plain and len(text) == end - start)
        text = "".join([self._engine_text(unit) for unit in units])
        return SpokenSpan(
            start, end, text, "".join([_UNSAID.sub(" ", one.readable) for one in units])
        )

    def _engine_text(self, unit: SpokenUnit) -> str:
        if unit.kind == "ipa":
            return f"[[{unit.text}]]"
        if unit.kind == "letters":
            return unit.text if "acronyms" in self.options.reads else unit.readable
        # Doubled brackets are for IPA alone; a stand-in and half a surrogate pair are no words.
        return _UNSAID.sub(" ", unit.text)

    def _join_short(self, clauses: Sequence[_StyledClause]) -> Iterator[_StyledClause]:
        """Short ones put to a neighbour of the same voice, unless a break stands between them."""

        def group_key(one: _StyledClause) -> tuple[VoiceStyle, int]:
            return one.style, bisect_right(self._breaks, one.clause.start)

        options = self.options
        for _, group in groupby(clauses, group_key):
            same = list(group)
            joined = join_short([one.clause for one in same], options.max_chars, options.join_words)
            for clause in joined:
                yield _StyledClause(clause, same[0].style, same[0].kind, same[0].paragraph)

    # Voices

    def _style_at(self, position: int) -> VoiceStyle:
        """The style that the markup gives to a position."""
        return self.source.styles[bisect_right(self._style_starts, position) - 1][1]

    def _unnamed_text(self, paragraph: SpokenParagraph) -> str:
        """The text of a paragraph whose language the markup leaves open."""
        start, end = paragraph.start, paragraph.end
        starts = [start, *_find_between(self._style_starts, start, end), end]
        unnamed = [pair for pair in pairwise(starts) if not self._style_at(pair[0]).language]
        return " ".join(self.source.text[left:right] for left, right in unnamed)

    def _style_runs(
        self, paragraph: SpokenParagraph, language: str
    ) -> Iterator[tuple[int, VoiceStyle]]:
        """Where each voice begins."""
        start, end = paragraph.start, paragraph.end
        current = None
        for left, right in pairwise([start, *_find_between(self._style_starts, start, end), end]):
            style = self._resolve_style(left, right, language)
            if style != current:
                yield left, style
            current = style

    def _resolve_style(self, start: int, end: int, language: str) -> VoiceStyle:
        """A style with everything filled in."""
        style, options = self._style_at(start), self.options
        spoken = match_language(style.language or language, options.languages)
        if not spoken:
            self._check_foreign(style.language, self.source.text[start:end], language)
            spoken = language
        base = spoken.partition("-")[0]
        own = options.voice if base == self._main.partition("-")[0] else ""
        named = options.voices.get(spoken) or options.voices.get(base)
        voice = style.voice or own or named or options.voice
        return VoiceStyle(spoken, voice, ssml.bound_rate(style.rate * options.rate))

    def _check_foreign(self, marked: str, text: str, language: str) -> None:
        what = excerpt(text)
        if num_words(text) >= PARAGRAPH_WORDS:
            raise build_language_error(marked, self.options.languages, what=what)
        if text.strip():
            named, instead = name_language(marked), name_language(language)
            self._warn(f"{what!r} is marked as {named} and is read as {instead}")

    # Marks

    def _read_marks(
        self, paragraph: SpokenParagraph, language: str
    ) -> list[tuple[Mark, SpokenSpan]]:
        """The marks of a paragraph with their spans: the text's own before the lexicon's."""
        text = self.source.text
        low, high = (bisect_left(self._mark_starts, at) for at in (paragraph.start, paragraph.end))
        own = self._marks[low:high]
        known = self.options.lexicon.find_marks(text, paragraph.start, paragraph.end, language)
        known = [mark for mark in known if not overlaps_any(mark, own)]
        found: list[tuple[Mark, SpokenSpan]] = []
        for mark in sorted([*own, *known], key=lambda mark: mark.start):
            named = self._style_at(mark.start).language
            spoken = match_language(named, self.options.languages) if named else language
            span = self._read_mark(mark, text[mark.start : mark.end], spoken)
            if span is not None and mark.end <= paragraph.end:
                found.append((mark, span))
        return found

    def _read_mark(self, mark: Mark, text: str, language: str) -> SpokenSpan | None:
        """What is said for a mark; None when its text is read as if it had none."""
        if mark.ipa and "ipa" in self.options.reads:
            return SpokenSpan(mark.start, mark.end, f"[[{mark.ipa}]]")
        if mark.ipa and not mark.say:
            if mark.bare or text == STAND_IN:
                self._warn(f"{_NO_IPA}, and IPA without a word is left out")
                return SpokenSpan(mark.start, mark.end, "")
            self._warn(_NO_IPA)
            return None
        if mark.interpret:
            tokens = ssml.say_as(text, mark.interpret, language)
            if tokens is None:
                kind = mark.interpret.partition(" ")[0]
                self._warn(f"SSML: say-as {kind!r} is not supported")
                return None
        elif mark.fixed:
            return SpokenSpan(mark.start, mark.end, mark.say)
        else:
            tokens = tokenize(mark.say, language)
        units = verbalize(tokens, language, self.options.reads)
        span = self._build_span(mark.start, mark.end, units)
        return SpokenSpan(mark.start, mark.end, span.engine_text.strip(), span.spoken.strip())

    def _warn(self, message: str) -> None:
        self.warnings[message] = None


def _sentences(
    text: str, paragraph: SpokenParagraph, marks: _MarkSpans, language: str
) -> Iterator[tuple[int, int, Sequence[Token]]]:
    """The sentences of a paragraph; none ends within a mark."""
    tokens = _tokenize(text, paragraph.start, paragraph.end, language)
    first = -1
    for sentence in split_sentences(tokens):
        first = sentence.start if first < 0 else first
        end = tokens[sentence.stop - 1].end
        if not _is_inside(end, marks):
            yield tokens[first].start, end, tokens[first : sentence.stop]
            first = -1
    if first >= 0:
        yield tokens[first].start, paragraph.end, tokens[first:]


def _tokenize(text: str, start: int, end: int, language: str) -> list[Token]:
    """The tokens of a stretch, with their places in the whole text."""
    tokens = tokenize(text[start:end], language)
    if not start:
        return tokens
    return [
        Token(start + one.start, start + one.end, one.kind, one.value, one.stop) for one in tokens
    ]


def _tokens_between(tokens: Sequence[Token], start: int, end: int) -> list[Token]:
    """Those in a stretch; what was read character for character is cut at its edges."""
    if start >= end:
        return []
    low = bisect_right(tokens, start, key=lambda token: token.end)
    high = bisect_left(tokens, end, key=lambda token: token.start)
    return [
        _clip(token, max(token.start, start), min(token.end, end)) for token in tokens[low:high]
    ]


def _clip(token: Token, start: int, end: int) -> Token:
    if (start, end) == (token.start, token.end):
        return token
    value = token.value if isinstance(token.value, str) else ""
    plain = len(value) == token.end - token.start
    value = value[start - token.start : end - token.start] if plain else ""
    return Token(start, end, "text", value)


def _have_crossing(tokens: Sequence[Token], marks: Sequence[Mark]) -> bool:
    """Whether a token that means something holds a part of a mark together with something else."""
    for token in tokens:
        if isinstance(token.value, str):
            continue
        number = bisect_right(marks, token.start, key=lambda mark: mark.end)
        if number < len(marks) and marks[number].start < token.end:
            mark = marks[number]
            if token.start < mark.start or mark.end < token.end:
                return True
    return False


def _merge_unspeakable(
    clauses: Sequence[tuple[Clause, VoiceStyle]],
) -> Iterator[tuple[Clause, VoiceStyle]]:
    """The clauses of a sentence, those that are mere signs put to the one before, or the next."""
    merged: list[tuple[Clause, VoiceStyle]] = []
    for clause, style in clauses:
        if merged and not (clause.is_speakable and merged[-1][0].is_speakable):
            before, own = merged.pop()
            style = style if clause.is_speakable else own
            clause = Clause(before.spans + clause.spans, clause.ends)
        merged.append((clause, style))
    return (pair for pair in merged if pair[0].is_speakable)


def _find_between(positions: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Those of sorted positions that lie inside a stretch."""
    return positions[bisect_right(positions, start) : bisect_left(positions, end)]


def _is_inside(position: int, marks: _MarkSpans) -> bool:
    number = bisect_left(marks, position, key=lambda pair: pair[0].start) - 1
    return number >= 0 and position < marks[number][0].end


# Segments and omissions


def _build_segments(
    source: SourceText, clauses: Sequence[_StyledClause], options: SpeechOptions
) -> Iterator[Segment]:
    silences = _find_silences(source, clauses)
    for number, one in enumerate(clauses):
        after = clauses[number + 1] if number + 1 < len(clauses) else None
        silence = silences.get(number)
        start, end = _trim(source.text, one.clause)
        text, spoken = limit_marks(one.clause.engine_text), limit_marks(one.clause.spoken)
        is_last = after is None or after.paragraph != one.paragraph
        has_no_stop = text[-1].isalnum() or text.endswith("]]")
        if one.kind == "heading" and is_last and has_no_stop and len(text) < options.max_chars:
            # A title has no full stop on paper and needs one in the voice.
            text, spoken = text + ".", spoken + "."
        style = one.style
        yield Segment(
            Utterance(
                text, style.language, style.voice, style.rate, compute_seed(text, options.seed)
            ),
            source.spans(start, end),
            source.text[start:end],
            spoken,
            one.kind,
            pause_before_s=silences.get(-1, 0.0) if number == 0 else 0.0,
            pause_after_s=_pause(one, after, options.pauses) if silence is None else silence,
            readings=tuple(_list_readings(one.clause, start, end)),
        )


def _list_readings(clause: Clause, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """What is not read as written, in places of the segment's text."""
    for span in clause.spans:
        low, high = max(span.start, start), min(span.end, end)
        if not span.plain and low < high:
            yield low - start, high - start, span.engine_text.strip()


def _trim(text: str, clause: Clause) -> Span:
    piece = text[clause.start : clause.end]
    if not piece.strip():
        return clause.start, clause.end
    return (
        clause.start + len(piece) - len(piece.lstrip()),
        clause.end - len(piece) + len(piece.rstrip()),
    )


def _find_silences(source: SourceText, clauses: Sequence[_StyledClause]) -> dict[int, float]:
    """The breaks that the text asks for, by the segment they follow; -1 is before the first."""
    starts = [one.clause.start for one in clauses]
    silences: dict[int, float] = {}
    for position, seconds in source.breaks:
        number = bisect_right(starts, position - 1) - 1
        silences[number] = silences.get(number, 0.0) + seconds
    return silences


def _pause(one: _StyledClause, after: _StyledClause | None, pauses: Pauses) -> float:
    """How long the voice rests after a clause."""
    if after is None:
        return 0.0
    if after.paragraph > one.paragraph + 1:  # a row of stars or a line between them
        return pauses.heading_s
    if after.paragraph != one.paragraph:
        return pauses.choose(one.kind, after.kind)
    core = one.clause.engine_text.rstrip("\"'”’»)]")
    turn = one.style.voice != after.style.voice
    if one.clause.ends or turn or core.endswith((".", "!", "?", "…")):
        return pauses.sentence_s
    return pauses.clause_s if core.endswith((",", ";", ":", "—", "–", "-")) else 0.0


def _find_omissions(source: SourceText, clauses: Sequence[_StyledClause]) -> Iterator[Omission]:
    """All that no segment speaks: the markup, and what is left of the text between segments."""
    yield from source.omissions
    position = 0
    for one in clauses:
        start, end = _trim(source.text, one.clause)
        yield from _list_unspoken(source, position, start)
        position = end
    yield from _list_unspoken(source, position, len(source.text))


def _list_unspoken(source: SourceText, start: int, end: int) -> Iterator[Omission]:
    """What lies between two segments, each row of signs by itself."""
    for match in _ROW.finditer(source.text, start, end):
        kind = _omission_kind(match[0]) if match[0].strip() else "space"
        for span in source.spans(*match.span()):
            yield Omission(span, kind)


def _omission_kind(text: str) -> OmissionKind:
    """Signs that no one reads, or characters that stand for nothing."""
    meaningless = all(unicodedata.category(one) in ("Cs", "Co", "Cn") for one in text[:100])
    return "unspeakable" if meaningless else "symbol"
