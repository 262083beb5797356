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

from anyrig.audiobooks.dialogue import QuotedSpeech, find_speeches
from anyrig.audiobooks.dialogue_words import (
    Gender,
    get_words,
    guess_gender,
    list_unnamed_genders,
)
from anyrig.audiobooks.speech_tags import ADJECTIVES, SpeechTag, find_tags, split_words

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
    found: tuple[QuotedSpeech, ...]
    tags: list[SpeechTag] = field(default_factory=list)
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


def _fits(tag: SpeechTag, name: str, known: Mapping[str, Gender]) -> bool:
    """Whether what stands beside a speech leaves room for a speaker."""
    if tag.kind == "pronoun":
        return "" in (tag.gender, known.get(name, "")) or known[name] == tag.gender
    return tag.kind == "none"


def _apply_actions(turn: _Turn, known: Mapping[str, Gender], who: Callable[[str], str]) -> None:
    """Gives a speech without a name to the person who acts right beside it."""
    is_named = any(tag.kind in ("name", "other") for tag in turn.tags)
    if is_named or not turn.language.lower().startswith("en"):
        return
    acting: set[str] = set()
    for low, high in _gaps(turn):
        for sentence in re.split(r"(?<=[a-z][.!?…:])\s+", turn.text[low:high].strip(" —–")):
            if sentence and (name := _find_actor(sentence, known, who)):
                acting.add(name)
    name = next(iter(acting), "")
    if len(acting) == 1 and all(_fits(tag, name, known) for tag in turn.tags):
        turn.tags = [SpeechTag("name", name), *turn.tags[1:]]


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
        genders = {tag.gender for tag in turn.tags if tag.kind == "pronoun" and tag.gender}
        if len(names) == len(genders) == 1 and not known[name := names.pop()]:
            known[name] = genders.pop()
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
    genders = {tag.gender for tag in turn.tags if tag.kind == "pronoun" and tag.gender}
    if len(genders) != 1 or any(tag.kind in ("name", "other") for tag in turn.tags):
        return
    gender = genders.pop()
    near = paragraphs[max(0, turn.paragraph - _PRONOUN_WINDOW) : turn.paragraph]
    narration = "".join(turn.text[low:high] for low, high in _gaps(turn))
    texts = [*filter(None, near), narration]
    people = _find_mentioned(texts, turn.language, known, who)
    fitting = [name for name, kind in people.items() if kind == gender]
    others = list_unnamed_genders(
        re.findall(r"\w+", " ".join(texts))
    )  # small letters only: they have no name
    if len(fitting) != 1 or "" in people.values() or others & {gender, ""}:
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
        if words[0].lower().rstrip(".") in ADJECTIVES or words[0].islower():
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
    narration = " ".join(turn.text[low:high] for low, high in _gaps(turn))
    return any(word in known for word in re.findall(r"\w+", narration)) and len(narration) > 1


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
