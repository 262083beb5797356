"""From a text to a script: the front door of speech.

    script = prepare("Dr. Lee paid $3.50.", limit=400, languages=("en",))
    script.segments[0].utterance.text  # Doctor Lee paid three dollars and fifty cents.

A pure function: the same text and arguments give the same script in any process. A segment's line
depends on its own words alone, seed included, so a change renders again only what it touches.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Literal

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech import ssml as ssml_reader
from anyrig.speech import tongues
from anyrig.speech.blocks import Block, blocks
from anyrig.speech.engine import Utterance
from anyrig.speech.flow import Flow, plain
from anyrig.speech.lexicon import LayeredLexicon, Lexicon
from anyrig.speech.pauses import Pauses
from anyrig.speech.recite import Reciter, Spoken, Terms
from anyrig.speech.script import Omission, OmissionKind, Script, Segment, Span
from anyrig.speech.split import SHORT_WORDS, first_clause

LEAST_LIMIT = 20
_MARKS, _MAX_MARKS = ("Mn", "Me"), 6
"""Categories of combining marks, and how many a letter may have; Tibetan has stacks of five."""
_ROW = re.compile(r"\s+|\S++(?:[^\S\n\r]++\S++)*+")


def prepare(
    text: str,
    *,
    limit: int = 400,
    phonemes: bool = False,
    languages: Sequence[str] = (),
    language: str = "auto",
    default_language: str = "en",
    voice: str = "",
    voices: Mapping[str, str] | None = None,
    rate: float = 1.0,
    seed: int = 0,
    lexicon: Lexicon | LayeredLexicon | None = None,
    pauses: Pauses | None = None,
    ssml: bool | Literal["auto"] = "auto",
    first_short: bool = False,
    shortest: int = SHORT_WORDS,
    on_step: Callable[[], None] | None = None,
) -> Script:
    """The script of a text.

    UnspeakableTextError when there is nothing in it that the engine can say.

    Args:
        text: plain, or SSML.
        limit: the most spoken characters of a line (`EngineInfo.max_chars`).
        phonemes: whether the engine takes IPA (`EngineInfo.reads`).
        languages: what it speaks (`EngineWeights.languages`); empty is anything.
        language: of the text; `auto` finds it by paragraph.
        default_language: what a text too short to tell is taken for.
        voice: for the main language, and for any other that `voices` does not name.
        voices: the voice for text in each language.
        rate: 2.0 is twice as fast.
        seed: another one gives other takes of every line.
        lexicon: the user's pronunciations.
        pauses: how long the voice rests.
        ssml: whether the text is SSML; `auto` looks whether it begins with <speak.
        first_short: cut the first segment after a short clause, so that it is heard early.
        shortest: sentences of so few words are joined with a neighbour.
        on_step: called before each sentence; it may raise an error to stop.
    """
    terms = Terms(
        max(LEAST_LIMIT, limit), phonemes, tuple(languages), voice, voices or {}, _rate(rate),
        seed, lexicon or Lexicon(), pauses or Pauses(), shortest,
    )  # fmt: skip
    marked = ssml_reader.looks_like(text) if ssml == "auto" else ssml
    flow = ssml_reader.read(text) if marked else plain(text)
    script = compose(
        flow, _blocks(flow), terms, language=language, default_language=default_language,
        first_short=first_short, on_step=on_step,
    )  # fmt: skip
    if not script.segments:
        raise UnspeakableTextError(
            "There is nothing to say in the text", hint="Pass a text with words or numbers in it."
        )
    return script


def compose(
    flow: Flow,
    found: Sequence[Block],
    terms: Terms,
    *,
    language: str = "auto",
    default_language: str = "en",
    first_short: bool = False,
    on_step: Callable[[], None] | None = None,
) -> Script:
    """The script of a flow whose blocks are known; without segments when nothing can be said.

    Args:
        flow: the words and what belongs to them.
        found: its blocks in order; what lies between them is not spoken.
        terms: what the caller wants and the engine can.
        language: of the text; `auto` finds it by block.
        default_language: what a text too short to tell is taken for.
        first_short: cut the first segment after a short clause, so that it is heard early.
        on_step: called before each sentence.
    """
    reciter = Reciter(flow, terms, dict.fromkeys(flow.warnings), on_step=on_step)
    chosen = _tongues(reciter, found, language, default_language)
    reciter.main = chosen.main
    reciter.warnings.update(dict.fromkeys(chosen.warnings))
    spoken: list[Spoken] = []
    for number, (block, tongue) in enumerate(zip(found, chosen.each, strict=True)):
        spoken += reciter.recite(block, number, tongue)
    if first_short and spoken:
        one = spoken[0]
        spoken[:1] = [
            Spoken(part, one.style, one.kind, one.block) for part in first_clause(one.part)
        ]
    segments = tuple(_segments(flow, spoken, terms))
    return Script(
        flow.source, segments, tuple(_omissions(flow, spoken)), tuple(reciter.warnings),
        tuple(dict.fromkeys(segment.utterance.language for segment in segments)),
    )  # fmt: skip


def seed_of(words: str, seed: int) -> int:
    """The seed of a line, made of its words: it sounds the same wherever it stands."""
    data = f"{seed}\n{words}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "big") >> 1


def limit_marks(text: str) -> str:
    """A text without combining marks where a letter has more than any language writes.

    Engines that take marks one by one would say each of them, or fail.
    """
    if text.isascii():
        return text
    kept: list[str] = []
    for is_mark, run in groupby(text, lambda char: unicodedata.category(char) in _MARKS):
        found = "".join(run)
        if is_mark and len(found) > _MAX_MARKS:
            composed = unicodedata.normalize("NFC", (kept.pop() if kept else "") + found)
            kept += [char for char in composed if unicodedata.category(char) not in _MARKS]
        else:
            kept += found
    return "".join(kept)


def _rate(rate: float) -> float:
    if not 0.25 <= rate <= 4.0:
        raise InvalidInputError(
            f"the rate must be between 0.25 and 4, not {rate:g}", hint="1 is the voice's own rate."
        )
    return rate


def _blocks(flow: Flow) -> list[Block]:
    """The paragraphs of a flow, those that its markup asks for among them."""
    edges = {position for position, kind in flow.edges if kind == "paragraph"}
    found: list[Block] = []
    for start, end in pairwise(sorted({0, len(flow.text)} | edges)):
        found += [
            Block(start + each.start, start + each.end, each.kind)
            for each in blocks(flow.text[start:end])
        ]
    return found


def _tongues(
    reciter: Reciter, found: Sequence[Block], language: str, default: str
) -> tongues.Tongues:
    """The language of each block; what its markup names is not guessed, and tells nothing else."""
    terms = reciter.terms
    if language != "auto":
        return tongues.settled(language, terms.languages, len(found))
    named = [reciter.style_at(block.start).language for block in found]
    texts = [reciter.unnamed(block) for block in found]
    if not any(text.strip() for text in texts) and any(named):
        default = tongues.matched(named[0], terms.languages) or default
    return tongues.found(texts, terms.languages, default)


def _segments(flow: Flow, spoken: Sequence[Spoken], terms: Terms) -> Iterator[Segment]:
    silences = _silences(flow, spoken)
    for number, one in enumerate(spoken):
        after = spoken[number + 1] if number + 1 < len(spoken) else None
        rest = silences.get(number)
        start, end = _trimmed(flow.text, one)
        yield Segment(
            _line(one, terms, last=after is None or after.block != one.block),
            flow.spans(start, end),
            flow.text[start:end],
            one.kind,
            pause_before_s=silences.get(-1, 0.0) if number == 0 else 0.0,
            pause_after_s=_rest(one, after, terms.pauses) if rest is None else rest,
        )


def _line(one: Spoken, terms: Terms, *, last: bool) -> Utterance:
    words = limit_marks(one.part.spoken)
    if one.kind == "heading" and last and words[-1].isalnum() and len(words) < terms.limit:
        words += "."  # a title has no full stop on paper and needs one in the voice
    style = one.style
    return Utterance(words, style.language, style.voice, style.rate, seed_of(words, terms.seed))


def _trimmed(text: str, one: Spoken) -> Span:
    start, end = one.part.start, one.part.end
    piece = text[start:end]
    bare = piece.strip()
    if not bare:
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _silences(flow: Flow, spoken: Sequence[Spoken]) -> dict[int, float]:
    """The breaks that the text asks for, by the segment they follow; -1 is before the first."""
    starts = [one.part.start for one in spoken]
    found: dict[int, float] = {}
    for position, seconds in flow.breaks:
        number = bisect_right(starts, position - 1) - 1
        found[number] = found.get(number, 0.0) + seconds
    return found


def _rest(one: Spoken, after: Spoken | None, pauses: Pauses) -> float:
    """How long the voice rests after a part."""
    if after is None:
        return 0.0
    if after.block > one.block + 1:  # a row of stars or a line between them
        return pauses.heading_s
    if after.block != one.block:
        return pauses.between(one.kind, after.kind)
    core = one.part.spoken.rstrip("\"'”’»)]")
    turn = one.style.voice != after.style.voice
    if one.part.ends or turn or core.endswith((".", "!", "?", "…")):
        return pauses.sentence_s
    return pauses.clause_s if core.endswith((",", ";", ":", "—", "–", "-")) else 0.0


def _omissions(flow: Flow, spoken: Sequence[Spoken]) -> Iterator[Omission]:
    """All that no segment speaks: the markup, and what is left of the text between segments."""
    yield from flow.omissions
    position = 0
    for one in spoken:
        start, end = _trimmed(flow.text, one)
        yield from _unspoken(flow, position, start)
        position = end
    yield from _unspoken(flow, position, len(flow.text))


def _unspoken(flow: Flow, start: int, end: int) -> Iterator[Omission]:
    """What lies between two segments, each row of signs by itself."""
    for match in _ROW.finditer(flow.text, start, end):
        kind = _kind(match[0]) if match[0].strip() else "space"
        for span in flow.spans(*match.span()):
            yield Omission(span, kind)


def _kind(text: str) -> OmissionKind:
    """Signs that no one reads, or characters that stand for nothing."""
    meaningless = all(unicodedata.category(one) in ("Cs", "Co", "Cn") for one in text[:100])
    return "unspeakable" if meaningless else "symbol"
