"""Who speaks, over the paragraphs of a chapter.

    attribute_speeches(["“Yes,” said Tom.", "“No,” said Mary.", "“Why?”"])   Tom, Mary, Tom

A name beside the speech counts first. A pronoun is taken for a person only where one alone can be
meant; speeches without a word on their speaker are told apart by turns, where two people talk and
every name that is given agrees. All else is left open: a wrong voice is worse than the narrator's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from anyrig.audiobooks.dialogue import Speech, find_speeches
from anyrig.audiobooks.dialogue_words import (
    DialogueWords,
    Gender,
    get_words,
    guess_gender,
    list_unnamed_genders,
)

_PRONOUN_WINDOW = 4
"""Paragraphs in which a pronoun's person must have been named."""
_MAX_TURNS = 8
"""Turns from the last name over which two people are told apart."""
_SHORTEST, _NEAR = 2, 100
"""Characters between two speeches of one person: side by side, two people speak."""
_ACTION_VERBS = frozenset(
    "shook took gave sat stood rose bent drew threw held let put set swung spun caught rubbed bit "
    "lit ran got came leant began grinned stared blinked paused frowned strode knelt wrote".split()
)
_STATE_VERBS = frozenset(
    "needed wanted liked loved hated seemed lived belonged remained used".split()
)


@dataclass(frozen=True)
class AttributedSpeech:
    """A speech and its speaker."""

    start: int
    end: int
    speaker: str = ""
    """As the text names them; empty where that is not sure."""
    continued: bool = False


@dataclass
class _Turn:
    """What one person says before another does, or before the narrator comes between."""

    paragraph: int
    text: str
    language: str
    found: tuple[Speech, ...]
    tags: list[Tag] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """One for each speech."""

    @property
    def name(self) -> str:
        """The one speaker, if there is one."""
        return self.names[0] if len(set(self.names)) == 1 else ""

    @property
    def mixed(self) -> bool:
        """Whether several people speak in it."""
        return len(set(filter(None, self.names))) > 1


def attribute_speeches(
    paragraphs: Sequence[str | None],
    language: str | Sequence[str] = "en",
    *,
    who: Callable[[str], str] | None = None,
    genders: Mapping[str, Gender] | None = None,
    names: Collection[str] = (),
) -> list[tuple[AttributedSpeech, ...]]:
    """The speeches of each paragraph; None stands for a heading and the like.

    Args:
        paragraphs: Of one chapter, in order.
        language: Of all of them, or of each.
        who: What a name stands for: `Mrs. Dalloway` and `Clarissa` may be one. Names that it does
            not know come back as they are.
        genders: Of people, by the names that `who` gives.
        names: In small letters, of people for whom `Tom: words` is a speech.
    """
    codes = [language] * len(paragraphs) if isinstance(language, str) else list(language)
    turns = _find_turns(paragraphs, codes, names)
    given_names = [tag.name for turn in turns for tag in turn.tags if tag.kind == "name"]
    who = _build_resolver(who, given_names)
    for turn in turns:
        turn.tags = [replace(tag, name=who(tag.name)) if tag.name else tag for tag in turn.tags]
    people = {tag.name for turn in turns for tag in turn.tags if tag.kind == "name"}
    known = _find_genders(people, turns, genders or {})
    for turn in turns:
        _apply_actions(turn, known, who)
        turn.names = _spread_names(turn, known)
    for number in range(len(turns)):
        _resolve_pronouns(turns, number, paragraphs, known, who)
    for run in _group_runs(turns):
        _join_continued(run)
        _fill_alternating(run, known)
    given: list[tuple[AttributedSpeech, ...]] = [()] * len(paragraphs)
    for turn in turns:
        given[turn.paragraph] = tuple(
            AttributedSpeech(speech.start, speech.end, name, speech.continued)
            for speech, name in zip(turn.found, turn.names, strict=True)
        )
    return given


def _find_turns(
    paragraphs: Sequence[str | None], codes: Sequence[str], names: Collection[str]
) -> list[_Turn]:
    turns: list[_Turn] = []
    left_open = False
    for number, (text, language) in enumerate(zip(paragraphs, codes, strict=True)):
        found = find_speeches(text, language, open=left_open, names=names) if text else ()
        left_open = bool(found) and found[-1].open
        if text and found:
            turns.append(_Turn(number, text, language, found, find_tags(text, found, language)))
    return turns


# One paragraph


def _spread_names(turn: _Turn, known: Mapping[str, Gender]) -> list[str]:
    """The names of a paragraph's speeches: one holds until another is given.

    Backwards too, over few words, unless it stands before its own speech: “No.” Tom said, “Yes.”
    """
    given = turn.tags
    names = [tag.name for tag in given]
    for number in range(1, len(given)):
        if not names[number] and _fits(given[number], names[number - 1], known):
            names[number] = names[number - 1]
    for number in range(len(given) - 2, -1, -1):
        follower, gap = given[number + 1], turn.found[number + 1].start - turn.found[number].end
        near = _SHORTEST < gap < _NEAR and not follower.before and follower.kind != "other"
        if near and not names[number] and _fits(given[number], names[number + 1], known):
            names[number] = names[number + 1]
    return names


def _fits(tag: Tag, name: str, known: Mapping[str, Gender]) -> bool:
    """Whether what stands beside a speech leaves room for a speaker."""
    if tag.kind == "pronoun":
        return "" in (tag.gender, known.get(name, "")) or known[name] == tag.gender
    return tag.kind == "none"


def _apply_actions(turn: _Turn, known: Mapping[str, Gender], who: Callable[[str], str]) -> None:
    """Gives a speech without a name to the person who acts right beside it."""
    told = any(tag.kind in ("name", "other") for tag in turn.tags)
    if told or not turn.language.lower().startswith("en"):
        return
    acting: set[str] = set()
    for low, high in _gaps(turn):
        for sentence in re.split(r"(?<=[a-z][.!?…:])\s+", turn.text[low:high].strip(" —–")):
            if sentence and (name := _find_actor(sentence, known, who)):
                acting.add(name)
    name = next(iter(acting), "")
    if len(acting) == 1 and all(_fits(tag, name, known) for tag in turn.tags):
        turn.tags = [Tag("name", name), *turn.tags[1:]]


def _gaps(turn: _Turn) -> list[tuple[int, int]]:
    edges = [0, *(place for each in turn.found for place in (each.start, each.end)), len(turn.text)]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _find_actor(sentence: str, people: Collection[str], who: Callable[[str], str]) -> str:
    """Of `Tom shook his head.` Tom, if he is known to speak."""
    given = split_words(sentence[:80], get_words("en"))
    for length in (3, 2, 1):
        name = who(" ".join(given[:length]))
        if name in people and len(given) > length:
            act = given[length]
            acts = act in _ACTION_VERBS or (act.endswith("ed") and act not in _STATE_VERBS)
            return name if acts else ""
    return ""


# Pronouns


def _find_genders(
    people: set[str], turns: Sequence[_Turn], given: Mapping[str, Gender]
) -> dict[str, Gender]:
    """Of the speakers: as given, by title or name, or by `said Zed ... he added` of one speaker."""
    language = turns[0].language if turns else "en"
    known: dict[str, Gender] = {
        name: given.get(name) or guess_gender(name, language) for name in people
    }
    for turn in turns:
        names = {tag.name for tag in turn.tags if tag.kind == "name"}
        told = {tag.gender for tag in turn.tags if tag.kind == "pronoun" and tag.gender}
        if len(names) == len(told) == 1 and not known[name := names.pop()]:
            known[name] = told.pop()
    return known


def _resolve_pronouns(
    turns: Sequence[_Turn],
    number: int,
    paragraphs: Sequence[str | None],
    known: Mapping[str, Gender],
    who: Callable[[str], str],
) -> None:
    """Gives `he said` its person, where only one can be meant."""
    turn = turns[number]
    told = {tag.gender for tag in turn.tags if tag.kind == "pronoun" and tag.gender}
    if len(told) != 1 or any(tag.kind in ("name", "other") for tag in turn.tags):
        return
    wanted = told.pop()
    near = paragraphs[max(0, turn.paragraph - _PRONOUN_WINDOW) : turn.paragraph]
    told_here = "".join(turn.text[low:high] for low, high in _gaps(turn))
    texts = [*filter(None, near), told_here]
    people = _find_mentioned(texts, turn.language, known, who)
    fitting = [name for name, kind in people.items() if kind == wanted]
    others = list_unnamed_genders(
        re.findall(r"\w+", " ".join(texts))
    )  # small letters only: they have no name
    if len(fitting) != 1 or "" in people.values() or others & {wanted, ""}:
        return
    if (
        fitting[0] not in known
        and fitting[0].lower().rstrip(".") in get_words(turn.language).titles
    ):
        return
    before = turns[number - 1] if number else None
    last = before.name if before and before.paragraph == turn.paragraph - 1 else ""
    if fitting[0] != last or turn.found[0].continued:
        turn.names = [fitting[0]] * len(turn.names)


_NAME = re.compile(r"(?:[^\W\d_]+\.?\s)?[^\W\d_a-z][^\W\d_]+(?:\s[^\W\d_a-z][^\W\d_]+)?")


def _find_mentioned(
    texts: Sequence[str], language: str, known: Mapping[str, Gender], who: Callable[[str], str]
) -> dict[str, Gender]:
    """People named in these paragraphs, and what is known of each."""
    found: dict[str, Gender] = {}
    text = "\n".join(texts)
    for match in _NAME.finditer(text):
        words = match[0].split()
        if words[0].lower().rstrip(".") in _ADJECTIVES or words[0].islower():
            words = words[1:] if words[0].lower() not in get_words(language).articles else words
        for name in {who(" ".join(words[low:])) for low in range(len(words))}:
            kind = known.get(name) if name in known else guess_gender(name, language)
            if name in known or kind:
                found[name] = kind or ""
    for name in known:
        if name not in found and name[:1].islower() and name in text:
            found[name] = known[name]
    return _merge_names(found)


def _merge_names(found: dict[str, Gender]) -> dict[str, Gender]:
    """Without names that are part of another: `Mary` beside `Mary Bennet`."""
    return {
        name: kind for name, kind in found.items()
        if not any(name != other and f" {name} " in f" {other} " for other in found)
    }  # fmt: skip


# Turns


def _group_runs(turns: Sequence[_Turn]) -> list[list[_Turn]]:
    """Turns in paragraphs that follow one another."""
    runs: list[list[_Turn]] = []
    for turn in turns:
        if runs and runs[-1][-1].paragraph == turn.paragraph - 1:
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return runs


def _join_continued(run: list[_Turn]) -> None:
    """Carries a speaker over the paragraphs of one long speech."""
    for before, turn in zip(run, run[1:], strict=False):
        if turn.found[0].continued and not any(turn.names):
            turn.names = [before.names[-1]] * len(turn.names)
    for turn, before in zip(run[::-1], run[-2::-1], strict=False):
        if turn.found[0].continued and not any(before.names) and turn.names[0]:
            before.names = [turn.names[0]] * len(before.names)


def _fill_alternating(run: list[_Turn], known: Mapping[str, Gender]) -> None:
    """Fills the turns of two people who talk in turn, if all that is known agrees."""
    heads = [turn for turn in run if not turn.found[0].continued]
    named = {number: turn.name for number, turn in enumerate(heads) if turn.name}
    if len(set(named.values())) < 2:
        return
    filled = {} if any(turn.mixed for turn in run) else _fill_by_parity(heads, named)
    filled = filled or _fill_between(heads, named)
    filled = {n: name for n, name in filled.items() if not _mentions_someone(heads[n], known)}
    if all(_agrees(heads[number], name, known) for number, name in filled.items()):
        for number, name in filled.items():
            heads[number].names = [name] * len(heads[number].names)
        _join_continued(run)


def _fill_by_parity(heads: Sequence[_Turn], named: Mapping[int, str]) -> dict[int, str]:
    """Every second turn, where two people alone are named and each on one side only."""
    sides: dict[int, set[str]] = {0: set(), 1: set()}
    for number, name in named.items():
        sides[number % 2].add(name)
    if [len(names) for names in sides.values()] != [1, 1] or sides[0] == sides[1]:
        return {}
    pair = {side: next(iter(names)) for side, names in sides.items()}
    return {
        number: pair[number % 2] for number, turn in enumerate(heads)
        if not any(turn.names) and _is_near(number, named)
    }  # fmt: skip


def _fill_between(heads: Sequence[_Turn], named: Mapping[int, str]) -> dict[int, str]:
    """Where more people talk: turns that two lead into, and one of the two takes up in turn."""
    filled: dict[int, str] = {}
    for number in named:
        first, second = named.get(number - 1), named[number]
        after = next((n for n in sorted(named) if n > number), None)
        if after is None or first is None or first == second or after - number > _MAX_TURNS:
            continue
        if named[after] == (first, second)[(after - number + 1) % 2]:
            steps = range(number + 1, after)
            filled |= {n: (first, second)[(n - number + 1) % 2] for n in steps}
    return {n: name for n, name in filled.items() if not any(heads[n].names)}


def _is_near(number: int, named: Mapping[int, str]) -> bool:
    return min(abs(number - other) for other in named) <= _MAX_TURNS


def _mentions_someone(turn: _Turn, known: Mapping[str, Gender]) -> bool:
    """Whether the narrator names somebody beside the speech, which leaves a doubt."""
    told = " ".join(turn.text[low:high] for low, high in _gaps(turn))
    return any(word in known for word in re.findall(r"\w+", told)) and len(told) > 1


def _agrees(turn: _Turn, name: str, known: Mapping[str, Gender]) -> bool:
    """Whether nothing in a turn speaks against a speaker."""
    if not all(_fits(tag, name, known) for tag in turn.tags):
        return False
    spoken = " ".join(turn.text[each.start : each.end] for each in turn.found)
    titles = get_words(turn.language).titles
    calls = {
        word for word in re.findall(r"\w\w+", name)
        if word[0].isupper() and word.lower() not in titles
    }  # fmt: skip
    return calls.isdisjoint(re.findall(r"\w+", spoken))


# Names


def _build_resolver(who: Callable[[str], str] | None, names: Iterable[str]) -> Callable[[str], str]:
    """Whom a name stands for: as the caller knows it, else by the other names of the chapter."""
    fuller: dict[str, set[str]] = {}
    for name in names:
        for part in _name_parts(name):
            fuller.setdefault(part, set()).add(name)

    @lru_cache(maxsize=10_000)
    def person(name: str) -> str:
        given = who(name) if who else name
        longer = fuller.get(name, ())
        if given != name or len(longer) != 1:
            return given
        return person(next(iter(longer)))

    return person


def _name_parts(name: str) -> set[str]:
    """First and last word of a full name without a title."""
    words = name.split()
    titled = words[0].rstrip(".").lower() in get_words("en").titles or words[0][:1].islower()
    return {words[0], words[-1]} if len(words) > 1 and not titled else set()


# -- the words beside a speech ---------------------------------------------------------------------

TagKind = Literal["name", "pronoun", "other", "none"]
_WORD_OR_SIGN = re.compile(
    r"[lL]['’](?=\w)|[dD]['’](?=[a-zà-ÿ])|[^\W\d_]+(?:['’\-][^\W\d_]+)*|[.,;:!?…—–]"
)
_SENTENCE_ENDS = frozenset(".!?…")
_CLAUSE_ENDS = frozenset(".!?…,;:—–")
_PARTICLES = frozenset("de del la las los von van der den du of le des di da".split())
_ADJECTIVES = frozenset("old little poor young dear".split())
"""Before a name and no part of it."""
_CONJUNCTIONS = frozenset("and then y et und or ni o ou".split())
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
class Tag:
    """What is said of a speaker."""

    kind: TagKind = "none"
    name: str = ""
    gender: Gender = ""
    before: bool = False
    """Whether it stands before the speech, and so says nothing of the speeches before it."""


_NO_TAG = Tag()


def find_tags(paragraph: str, found: Sequence[Speech], language: str = "en") -> list[Tag]:
    """For each speech of a paragraph, what stands beside it."""
    words = get_words(language)
    given: list[Tag] = []
    for number, speech in enumerate(found):
        if speech.name:
            given.append(Tag("name", speech.name))
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
            tag = Tag("other")
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


def _read_after(gap: str, spoken: str, words: DialogueWords) -> Tag:
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
        return Tag("other") if tag.name and _goes_on(given, words) else tag
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


def _parse_verb_first(clause: list[str], words: DialogueWords) -> Tag:
    if not clause[0].islower():
        return _NO_TAG
    if clause[0].lower() in words.first_person:
        return Tag("name", words.me)
    rest = clause[1:]
    while rest and rest[0].islower() and rest[0] in ("out", "on", "again", "then", "back", "in"):
        rest = rest[1:]
    subject, _ = _parse_subject(rest, words)
    if subject.kind == "none" and words.first_person:
        return Tag("other")  # Spanish needs no subject: somebody spoke
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


def _read_before(gap: str, words: DialogueWords) -> Tag:
    given = split_words(gap, words)
    if not given or given[-1] in _SENTENCE_ENDS:
        return _NO_TAG
    start = max((n + 1 for n, token in enumerate(given) if token in _SENTENCE_ENDS), default=0)
    clause = given[start:]
    verb = _find_last_verb(clause, words)
    if verb is None:
        return _NO_TAG
    if clause[verb].lower() in words.first_person:
        return Tag("name", words.me, before=True)
    tag = _find_subject(clause, verb, words)
    return Tag(tag.kind, tag.name, tag.gender, before=True) if tag.kind != "none" else _NO_TAG


def _find_last_verb(clause: list[str], words: DialogueWords) -> int | None:
    for place in range(len(clause) - 1, max(-1, len(clause) - 10), -1):
        if clause[place].lower() in words.verbs and clause[place].islower():
            return place
    return None


def _find_subject(clause: list[str], verb: int, words: DialogueWords) -> Tag:
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


def _find_opening_subject(clause: list[str], verb: int, words: DialogueWords) -> Tag:
    """`Tom looked at Mary and said,`: the first subject, if no other could have taken over."""
    start = 0
    while start < verb and clause[start].lower() in words.no_names - words.articles.keys():
        start += 1
    subject, used = _parse_subject(clause[start:verb], words)
    for place in range(start + max(used, 1), verb):
        takes = clause[place - 1].lower() in _CONJUNCTIONS | {
            ",",
            "as",
            "while",
            "when",
            "that",
            "que",
        }
        other = clause[place][:1].isupper() or clause[place].lower() in words.pronouns
        if takes and (other or clause[place].lower() in words.owners | words.articles.keys()):
            return _NO_TAG
    return subject


# Subjects


def _parse_subject(clause: list[str], words: DialogueWords) -> tuple[Tag, int]:
    """The person a clause begins with, and how many words that took."""
    if not clause:
        return _NO_TAG, 0
    first = clause[0].lower()
    if first == words.me.lower() and (first != "i" or clause[0] == "I"):
        return Tag("name", words.me), 1
    if first in words.pronouns:
        kind = words.pronouns[first]  # `it` and `they` are somebody, but who fits them is open
        return (Tag("pronoun", gender=kind) if kind else Tag("other")), 1
    if first in words.owners:
        return Tag("other"), min(len(clause), 2)
    if first in words.articles:
        return _parse_description(clause, words)
    return _parse_name(clause, words)


def _parse_name(clause: list[str], words: DialogueWords, start: int = 0) -> tuple[Tag, int]:
    place = start
    parts: list[str] = []
    while place < len(clause) and len(parts) < 5:
        token = clause[place]
        title = token.lower().rstrip(".") in words.titles
        more = _name_follows(clause, place + 1)
        if _is_capitalised(token) and (parts or title or token.lower() not in words.no_names):
            parts.append(token)
        elif (title or (parts and token in _PARTICLES)) and more:
            if token not in _ADJECTIVES:
                parts.append(token)
        else:
            break
        place += 1
    if not any(map(_is_capitalised, parts)):
        return _NO_TAG, 0
    if parts[-1].endswith(("'s", "s'")):
        return Tag("other"), place - start + 1
    if place + 1 < len(clause) and clause[place].lower() in ("and", "y", "et", "und"):
        return Tag("other"), place - start
    return Tag("name", " ".join(parts)), place - start


def _is_capitalised(token: str) -> bool:
    return token[:1].isupper() or (token[:2] in ("d'", "o'", "l'") and token[2:3].isupper())


def _name_follows(clause: list[str], place: int) -> bool:
    while place < len(clause) and clause[place] in _PARTICLES:
        place += 1
    return place < len(clause) and _is_capitalised(clause[place])


def _parse_description(clause: list[str], words: DialogueWords) -> tuple[Tag, int]:
    """`the King`, `la señora Pérez`, `the old man`: as it is written."""
    article = clause[0]
    if article.lower() in _INDEFINITE:
        return Tag("other"), min(len(clause), 2)
    named, used = _parse_name(clause, words, 1)
    if named.kind == "name":
        return Tag("name", _join_article(article.lower(), named.name)), used + 1
    parts: list[str] = []
    for token in clause[1:]:
        low = token.lower()
        stops = low in words.ends or low in words.verbs or _is_light(token, words)
        if stops or not token[0].isalpha() or low in words.pronouns:
            break
        parts.append(low)
    if not parts or len(parts) > _MAX_DESCRIBING or parts[0] in _VAGUE or named.kind == "other":
        return Tag("other"), len(parts) + 1
    if parts[-1].endswith(("'s", "s'")):
        return Tag("other"), len(parts) + 2
    return Tag("name", _join_article(article.lower(), " ".join(parts))), len(parts) + 1


def _join_article(article: str, name: str) -> str:
    return f"{article}{name}" if article.endswith("'") else f"{article} {name}"
