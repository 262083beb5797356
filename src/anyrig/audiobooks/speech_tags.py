"""What stands beside a speech and tells who speaks: `said Tom`, `she whispered`, `dit la reine`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anyrig.audiobooks.dialogue import QuotedSpeech
from anyrig.audiobooks.dialogue_words import DialogueWords, Gender, get_words

TagKind = Literal["name", "pronoun", "other", "none"]
_WORD_OR_SIGN = re.compile(
    r"[lL]['’](?=\w)|[dD]['’](?=[a-zà-ÿ])|[^\W\d_]+(?:['’\-][^\W\d_]+)*|[.,;:!?…—–]"
)
_SENTENCE_ENDS = frozenset(".!?…")
_CLAUSE_ENDS = frozenset(".!?…,;:—–")
_PARTICLES = frozenset("de del la las los von van der den du of le des di da".split())
ADJECTIVES = frozenset("old little poor young dear".split())
"""Before a name and no part of it."""
_CONJUNCTIONS = frozenset("and then y et und or ni o ou".split())
_SECOND_SUBJECT_AFTER = _CONJUNCTIONS | {",", "as", "while", "when", "that", "que"}
_PREPOSITIONS = frozenset(
    "to at with from of by for on upon about behind a al con de del por para sobre avec du à au "
    "chez pour zu mit von".split()
)
_DENIES = frozenset("nothing no not never nada rien nichts".split())
_VAGUE = frozenset("other others first second third latter former same rest".split())
_INDEFINITE = frozenset("a an un una une ein eine los las les".split())
# A new clause that ends with the comma before a speech.
_ELSEWHERE = re.compile(
    r"(?:[;.!?)]\s+\S|,\s*(?:and|but|then|while|when|y|pero|et|mais|puis)\b)[^.!?]*[,:—–-]\s*\Z"
)
_MAX_DESCRIBING = 3
_REACH = 240
"""Characters looked at on either side."""


@dataclass(frozen=True)
class SpeechTag:
    """What is said of a speaker."""

    kind: TagKind = "none"
    name: str = ""
    gender: Gender = ""
    before: bool = False
    """Whether it stands before the speech, and so says nothing of the speeches before it."""


_NO_TAG = SpeechTag()


def find_tags(
    paragraph: str, found: Sequence[QuotedSpeech], language: str = "en"
) -> list[SpeechTag]:
    """For each speech of a paragraph, what stands beside it."""
    words = get_words(language)
    given: list[SpeechTag] = []
    for number, speech in enumerate(found):
        if speech.name:
            given.append(SpeechTag("name", speech.name))
            continue
        low = found[number - 1].end if number else 0
        high = found[number + 1].start if number + 1 < len(found) else len(paragraph)
        follows = paragraph[speech.end : high]
        leads = _leads_on(paragraph[: speech.end], follows, number + 1 < len(found))
        tag = _NO_TAG if leads else _read_after(follows[:_REACH], paragraph[: speech.end], words)
        leading = paragraph[max(low, speech.start - _REACH) : speech.start]
        if tag.kind == "none":
            tag = _read_before(leading, words)
        if tag.kind == "none" and number and _turns_away(leading):
            tag = SpeechTag("other")
        given.append(tag)
    return given


def _leads_on(spoken: str, follows: str, more: bool) -> bool:
    """Whether the words behind a finished speech only lead to the next: “No.” Tom said, “Yes.”"""
    ended = spoken.rstrip("\"'”’»« \u00a0\u202f").endswith((".", "…"))
    rest = follows.strip()
    return more and ended and rest[-1:] in (",", ":") and rest[:1].isupper()


def _turns_away(gap: str) -> bool:
    """Whether another may be about to speak: ... cried Tom; and the others joined in, “Yes!”"""
    return not gap.strip() or _ELSEWHERE.search(gap) is not None


def split_words(text: str, words: DialogueWords) -> list[str]:
    """Words and signs; a title keeps its full stop, and French verbs lose what is tied to them."""
    found: list[str] = []
    for match in _WORD_OR_SIGN.finditer(text):
        token = match[0].replace("’", "'")
        if token == "." and found and _is_abbreviation(found[-1], words):
            found[-1] += "."
            continue
        stem, *tied = token.split("-")
        if tied and tied[-1].lower() in words.pronouns and stem.lower() in words.verbs:
            found += [stem, tied[-1]]
        else:
            found.append(token)
    return found


def _is_abbreviation(word: str, words: DialogueWords) -> bool:
    short = word.lower() in words.titles and len(word) <= 5 and word[:1].isupper()
    return short or (len(word) == 1 and word.isupper() and word != words.me)


# The words behind a speech


def _read_after(gap: str, spoken: str, words: DialogueWords) -> SpeechTag:
    given = split_words(gap, words)
    while given and given[0] in _CLAUSE_ENDS:
        given.pop(0)
    clause = _first_clause(given)
    while clause and clause[0].lower() in words.fillers and clause[0].islower():
        clause.pop(0)
    if not clause:
        return _NO_TAG
    if clause[0].lower() in words.verbs:
        tag = _parse_verb_first(clause, words)
        return SpeechTag("other") if tag.name and _goes_on(given, words) else tag
    subject, used = _parse_subject(clause, words)
    if subject.kind == "none":
        return _NO_TAG
    place = _skip_adverbs(clause, used, words)
    if place >= len(clause):
        return _NO_TAG
    if clause[place].lower() in words.verbs:
        denied = place + 1 < len(clause) and clause[place + 1].lower() in _DENIES
        return _NO_TAG if denied else subject
    comma = spoken.rstrip("\"'”’»« \u00a0\u202f").endswith(",")
    return subject if comma and clause[place].endswith("ed") else _NO_TAG


def _first_clause(given: list[str]) -> list[str]:
    for number, token in enumerate(given):
        if token in _CLAUSE_ENDS:
            return given[:number]
    return given


def _goes_on(given: list[str], words: DialogueWords) -> bool:
    """Whether a description is cut by a comma: `the tall, | dark stranger`."""
    comma = given.index(",") if "," in given else len(given)
    rest = given[comma + 1 : comma + 3]
    if len(rest) < 2 or comma < 3 or given[comma - 2].lower() not in words.articles:
        return False
    plain = rest[0].islower() and not rest[0].endswith(("ing", "ly", "ant", "ando", "endo", "ed"))
    known = rest[0] in words.ends | words.owners | words.fillers | words.no_names
    return plain and not known and rest[0] not in words.pronouns and given[comma - 1].islower()


def _parse_verb_first(clause: list[str], words: DialogueWords) -> SpeechTag:
    if not clause[0].islower():
        return _NO_TAG
    if clause[0].lower() in words.first_person:
        return SpeechTag("name", words.me)
    rest = clause[1:]
    while rest and rest[0].islower() and rest[0] in ("out", "on", "again", "then", "back", "in"):
        rest = rest[1:]
    subject, _ = _parse_subject(rest, words)
    if subject.kind == "none" and words.first_person:
        return SpeechTag("other")  # Spanish needs no subject: somebody spoke
    return subject


def _skip_adverbs(clause: list[str], place: int, words: DialogueWords) -> int:
    """Behind adverbs and the like, two at most."""
    for _ in range(2):
        if place < len(clause) and _is_light(clause[place], words):
            place += 1
    return place


def _is_light(word: str, words: DialogueWords) -> bool:
    adverb = word.endswith(("ly", "mente", "ment")) and word.islower()
    return word.lower() in words.fillers or adverb


# The words before a speech


def _read_before(gap: str, words: DialogueWords) -> SpeechTag:
    given = split_words(gap, words)
    if not given or given[-1] in _SENTENCE_ENDS:
        return _NO_TAG
    start = max((n + 1 for n, token in enumerate(given) if token in _SENTENCE_ENDS), default=0)
    clause = given[start:]
    verb = _find_last_verb(clause, words)
    if verb is None:
        return _NO_TAG
    if clause[verb].lower() in words.first_person:
        return SpeechTag("name", words.me, before=True)
    tag = _find_subject(clause, verb, words)
    return SpeechTag(tag.kind, tag.name, tag.gender, before=True) if tag.kind != "none" else _NO_TAG


def _find_last_verb(clause: list[str], words: DialogueWords) -> int | None:
    for place in range(len(clause) - 1, max(-1, len(clause) - 10), -1):
        if clause[place].lower() in words.verbs and clause[place].islower():
            return place
    return None


def _find_subject(clause: list[str], verb: int, words: DialogueWords) -> SpeechTag:
    """Right before the verb; else the one that opens the sentence; else right behind."""
    for start in range(max(0, verb - 7), verb):
        subject, used = _parse_subject(clause[start:verb], words)
        if subject.kind != "none" and used and _reaches_verb(clause, start + used, verb, words):
            by = clause[start - 1].lower() if start else ""
            return _NO_TAG if by in _PREPOSITIONS else subject
    if verb and clause[verb - 1].lower() in _CONJUNCTIONS | {","}:
        return _find_opening_subject(clause, verb, words)
    rest = [token for token in clause[verb + 1 :] if token not in _CLAUSE_ENDS]
    subject, used = _parse_subject(rest, words)
    return subject if used and used == len(rest) else _NO_TAG


def _reaches_verb(clause: list[str], place: int, verb: int, words: DialogueWords) -> bool:
    return place <= verb <= place + 2 and all(_is_light(w, words) for w in clause[place:verb])


def _find_opening_subject(clause: list[str], verb: int, words: DialogueWords) -> SpeechTag:
    """`Tom looked at Mary and said,`: the first subject, if no other could have taken over."""
    start = 0
    while start < verb and clause[start].lower() in words.no_names - words.articles.keys():
        start += 1
    subject, used = _parse_subject(clause[start:verb], words)
    for place in range(start + max(used, 1), verb):
        takes = clause[place - 1].lower() in _SECOND_SUBJECT_AFTER
        other = clause[place][:1].isupper() or clause[place].lower() in words.pronouns
        if takes and (other or clause[place].lower() in words.owners | words.articles.keys()):
            return _NO_TAG
    return subject


# Subjects


def _parse_subject(clause: list[str], words: DialogueWords) -> tuple[SpeechTag, int]:
    """The person a clause begins with, and how many words that took."""
    if not clause:
        return _NO_TAG, 0
    first = clause[0].lower()
    if first == words.me.lower() and (first != "i" or clause[0] == "I"):
        return SpeechTag("name", words.me), 1
    if first in words.pronouns:
        kind = words.pronouns[first]  # `it` and `they` are somebody, but who fits them is open
        return (SpeechTag("pronoun", gender=kind) if kind else SpeechTag("other")), 1
    if first in words.owners:
        return SpeechTag("other"), min(len(clause), 2)
    if first in words.articles:
        return _parse_description(clause, words)
    return _parse_name(clause, words)


def _parse_name(clause: list[str], words: DialogueWords, start: int = 0) -> tuple[SpeechTag, int]:
    place = start
    parts: list[str] = []
    while place < len(clause) and len(parts) < 5:
        token = clause[place]
        title = token.lower().rstrip(".") in words.titles
        more = _name_follows(clause, place + 1)
        if _is_capitalised(token) and (parts or title or token.lower() not in words.no_names):
            parts.append(token)
        elif (title or (parts and token in _PARTICLES)) and more:
            if token not in ADJECTIVES:
                parts.append(token)
        else:
            break
        place += 1
    if not any(map(_is_capitalised, parts)):
        return _NO_TAG, 0
    if parts[-1].endswith(("'s", "s'")):
        return SpeechTag("other"), place - start + 1
    if place + 1 < len(clause) and clause[place].lower() in ("and", "y", "et", "und"):
        return SpeechTag("other"), place - start
    return SpeechTag("name", " ".join(parts)), place - start


def _is_capitalised(token: str) -> bool:
    return token[:1].isupper() or (token[:2] in ("d'", "o'", "l'") and token[2:3].isupper())


def _name_follows(clause: list[str], place: int) -> bool:
    while place < len(clause) and clause[place] in _PARTICLES:
        place += 1
    return place < len(clause) and _is_capitalised(clause[place])


def _parse_description(clause: list[str], words: DialogueWords) -> tuple[SpeechTag, int]:
    """`the King`, `la señora Pérez`, `the old man`: as it is written."""
    article = clause[0]
    if article.lower() in _INDEFINITE:
        return SpeechTag("other"), min(len(clause), 2)
    named, used = _parse_name(clause, words, 1)
    if named.kind == "name":
        return SpeechTag("name", _join_article(article.lower(), named.name)), used + 1
    parts: list[str] = []
    for token in clause[1:]:
        low = token.lower()
        stops = low in words.ends or low in words.verbs or _is_light(token, words)
        if stops or not token[0].isalpha() or low in words.pronouns:
            break
        parts.append(low)
    if not parts or len(parts) > _MAX_DESCRIBING or parts[0] in _VAGUE or named.kind == "other":
        return SpeechTag("other"), len(parts) + 1
    if parts[-1].endswith(("'s", "s'")):
        return SpeechTag("other"), len(parts) + 2
    return SpeechTag("name", _join_article(article.lower(), " ".join(parts))), len(parts) + 1


def _join_article(article: str, name: str) -> str:
    return f"{article}{name}" if article.endswith("'") else f"{article} {name}"
