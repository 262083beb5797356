"""Words: as they are written and as they are stemmed, in passages and in questions.

FTS5's tokenizer parts words at spaces and marks. Chinese, Japanese, Thai and their like have no
spaces, so each of their characters is indexed as a word; a question in them asks for the characters
in their order. A question is never handed to FTS5 as it was written: its words are quoted, so that
nothing in it is an operator. What people write as operators is parsed here:

    "exact phrase"  prefix*  -excluded  -excluded*  -"excluded phrase"  path:letters  -type:pdf

A passage has two columns: `written` has its words, `stemmed` the stems that differ from them. A
word of a question is looked for in both, by its stem in each language of the index; a phrase only
among the words as written.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import repeat
from typing import Any

from anyrig.documents.words import UNSPACED, fold, list_function_words
from anyrig.text.tokens import find_sentences

MAX_TERMS = 32
"""Of a question; a longer one is asked by its rarest."""
MAX_SHARE = 1.25
"""Of a question: what a passage may say of it by having its words often, or as they were asked."""
MAX_RANKED = 4_000
"""Passages with one of the rare words of a question; a word in more passages is a common one."""
_MAX_COMMON = 4
_MAX_QUESTION = 20_000
_MAX_WORD = 64
_MIN_STEMMED = 3
_MIN_SENTENCE_WORDS = 4
_MIN_MISSPELT, _SPELLED_ALIKE = 4, 0.8
_MAX_SPELLINGS, _MAX_NEAR, _FEW_PASSAGES = 20_000, 3, 50_000
_OTHER_FORM = 0.7
"""What a word in another form counts in a sentence."""
_DENSE_CHARACTER = re.compile(f"[{UNSPACED}]")
_WORD = re.compile(f"[{UNSPACED}]+|[^\\W_{UNSPACED}](?:[^\\W_{UNSPACED}]|[\u0300-\u036f])*")
_ASCII_WORD = re.compile("[a-z0-9]+")
_PART = re.compile(
    r'(?P<minus>(?<!\S)-)?"(?P<phrase>[^"]+)"'
    r'|(?<!\S)(?P<without>-)?(?P<field>path|type):(?:"(?P<quoted>[^"]+)"|(?P<value>[^\s"]+))'
    r"|(?<!\S)-(?P<excluded>\w[^\s\"]*)"
    r"|(?<!\S)(?P<prefix>\w+)\*(?!\S)"
)
_QUOTATION_MARKS = str.maketrans(dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'))
"""As word processors write them: \u201cnotice period\u201d, \u00ab plazo \u00bb."""
_KOREAN = re.compile(
    "([\uac00-\ud7a3]{2,}?)"
    "(?:에서는|으로는|에게서|이라는|에서|에게|으로|까지|부터|처럼|보다|하고|이나|은|는|이|가|을|를|에|의|로|와|과|도|만)"
)
"""A noun and the particle that is written to its end."""
_SNOWBALL = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "nb": "norwegian",
    "ne": "nepali", "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish",
}  # fmt: skip


# -- as passages are indexed -----------------------------------------------------------------------


def split_dense(text: str) -> str:
    """A text with each character of a script without spaces as a word."""
    if text.isascii():
        return text
    return _DENSE_CHARACTER.sub(r" \g<0> ", text)


def list_stems(text: str, language: str) -> str:
    """The stems of a text that are not what is written, as they are indexed."""
    if language not in _SNOWBALL and language != "ko":
        return ""
    return " ".join(filter(None, map(_find_stem, split_words(_compose(text)), repeat(language))))


@lru_cache(maxsize=1 << 16)
def _find_stem(word: str, language: str) -> str:
    """The stem of a lowercase word, without accents; empty where it is the word."""
    stem = word
    if language == "ko":
        found = _KOREAN.fullmatch(word)
        stem = found[1] if found else word
    elif language in _SNOWBALL and len(word) >= _MIN_STEMMED:
        stem = fold(_get_stemmer(_SNOWBALL[language]).stemWord(word))
    return "" if stem in (word, fold(word)) else stem


@cache
def _get_stemmer(name: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(name, 0)


def split_words(text: str) -> list[str]:
    """The words of a text in order, lowercase."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return [word.lower() for word in _WORD.findall(text)]


def list_words(text: str) -> frozenset[str]:
    """The words of a text, folded."""
    return frozenset(map(fold, split_words(text)))


def _compose(text: str) -> str:
    """With accents joined to their letters: `e` and an accent are not two words."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))


# -- questions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """A question, with what its operators say."""

    text: str
    """What it asks, without operators: for a vector of it."""
    words: tuple[str, ...] = ()
    """Each once, in order; runs of characters in scripts without spaces."""
    prefixes: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    """Each must stand in a passage as written."""
    excluded: tuple[str, ...] = ()
    """Words, prefixes and phrases; a passage with one of them is not found."""
    paths: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    excluded_paths: tuple[str, ...] = ()
    excluded_types: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.prefixes)


def parse_question(question: str) -> Query:
    """A question as people write it; the longest is cut: it has said what it wants by then."""
    question = _compose(question[:_MAX_QUESTION]).translate(_QUOTATION_MARKS)
    prefixes: list[str] = []
    phrases: list[str] = []
    excluded: list[str] = []
    fields: dict[str, list[str]] = {"path": [], "type": [], "-path": [], "-type": []}
    rest: list[str] = []
    position = 0
    for match in _PART.finditer(question):
        rest.append(question[position : match.start()])
        position = match.end()
        if match["phrase"]:
            if _WORD.search(match["phrase"]):
                (excluded if match["minus"] else phrases).append(match["phrase"])
                rest.append("" if match["minus"] else match["phrase"])
        elif match["field"]:
            value = (match["quoted"] or match["value"]).strip()
            fields[f"{match['without'] or ''}{match['field']}"].append(value)
        elif match["excluded"]:
            excluded.append(match["excluded"])
        else:
            prefixes.append(match["prefix"])
            rest.append(match["prefix"])
    rest.append(question[position:])
    text = " ".join("".join(rest).split())
    words: dict[str, str] = {}
    for found in _WORD.finditer(text):
        word = found[0][:_MAX_WORD]
        words.setdefault(fold(word), word)
    for prefix in prefixes:
        words.pop(fold(prefix[:_MAX_WORD]), None)
    return Query(
        text, tuple(words.values()), tuple(prefixes), tuple(phrases), tuple(excluded),
        *map(tuple, fields.values()),
    )  # fmt: skip


def drop_stop_words(words: Sequence[str], languages: Sequence[str]) -> list[str]:
    """The words that say what a question is about; all of them where none does.

    The stop words of one language are dropped, of that which has most of them: `war` is one in
    German and none in English. It stays where no other word tells the two apart, and in a question
    of two words each counts.

    Args:
        words: of the question.
        languages: of the files, the most frequent first.
    """
    known = [language for language in languages if list_function_words(language)] or ["en"]
    if len(words) < 3:
        return list(words)
    found = [list_function_words(one) & {word.lower() for word in words} for one in known]
    most = max(found, key=len)
    likely = [
        one for one, small in zip(known, found, strict=True)
        if len(small) == len(most) or (small and small < most and len(small) == len(most) - 1)
    ]  # fmt: skip
    stops = frozenset.intersection(*map(list_function_words, likely))
    left = [
        word for word in words
        if word.lower() not in stops and (len(word) > 1 or not word.isascii())
    ]  # fmt: skip
    return left or list(words)


@dataclass(frozen=True)
class Term:
    """A word or prefix of a question, as FTS5 is asked for it."""

    word: str
    variants: frozenset[str]
    """The word and its stems, folded."""
    expression: str
    num_passages: int
    """In which it stands, estimated by the most frequent of its forms."""
    is_prefix: bool = False

    @property
    def is_dense(self) -> bool:
        """Whether it is of a script without spaces."""
        return not self.is_prefix and bool(_DENSE_CHARACTER.match(self.word))

    @property
    def rarity(self) -> float:
        return 1 / math.log(2 + self.num_passages)


@dataclass(frozen=True)
class KeywordQuery:
    """A question in words, with how common each is in an index."""

    terms: tuple[Term, ...]
    rare: tuple[Term, ...]
    common: tuple[Term, ...]
    """The rarest of those that stand in many passages."""
    weight: float
    """What FTS5 would give a passage of middle length that has every word once."""
    required: tuple[str, ...] = ()
    """Expressions that a passage must match."""
    excluded: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(term.word for term in self.terms)

    def weigh(self, found: Iterable[Term]) -> float:
        """How much of the question some of its terms are, from 0 to 1."""
        return sum(term.rarity for term in found) / self._rarity if self._rarity else 0.0

    @cached_property
    def _rarity(self) -> float:
        return sum(term.rarity for term in set(self.terms))


def build_keyword_query(
    connection: sqlite3.Connection,
    query: Query,
    languages: Sequence[str],
    num_passages: int,
    *,
    known: dict[str, Term] | None = None,
) -> KeywordQuery:
    """What to ask FTS5 for, by how common each word is in this index.

    Args:
        connection: to read.
        query: the question.
        languages: of the files, the most frequent first.
        num_passages: in the index.
        known: terms that were looked up before; new ones are added.
    """
    known = {} if known is None else known
    chosen = drop_stop_words(query.words, languages)
    targets = [(word, False) for word in chosen[: 4 * MAX_TERMS]]
    terms = []
    for word, is_prefix in [*targets, *((prefix, True) for prefix in query.prefixes)]:
        key = f"{word}*" if is_prefix else word
        if key not in known:
            known[key] = _build_term(connection, word, languages, is_prefix=is_prefix)
        terms.append(known[key])
    # Those that stand nowhere come last: they cost nothing, and may only have been folded amiss.
    by_rarity = sorted(terms, key=lambda one: (not one.num_passages, one.num_passages, one.word))
    rare: list[Term] = []
    common: list[Term] = []
    ranked = 0
    for term in by_rarity[:MAX_TERMS]:
        if not common and ranked + term.num_passages <= MAX_RANKED:
            ranked += term.num_passages
            rare.append(term)
        else:
            (common if term.num_passages else rare).append(term)
    weight = sum(_get_rarity(term.num_passages, num_passages) for term in terms)
    return KeywordQuery(
        tuple(terms), tuple(rare), tuple(common[:_MAX_COMMON]), weight,
        tuple(f"written : {quote(phrase)}" for phrase in query.phrases),
        tuple(_build_exclusion(word, languages) for word in query.excluded),
    )  # fmt: skip


def quote(term: str) -> str:
    """A term as FTS5 takes it: a phrase in quotes, in which nothing has a meaning."""
    return '"' + split_dense(term).replace('"', '""').strip() + '"'


def _build_exclusion(text: str, languages: Sequence[str]) -> str:
    found = _WORD.findall(text)
    if len(found) == 1 and text.endswith("*"):
        return f"({quote(found[0])} *)"
    if len(found) == 1:
        return _join_variants(_list_variants(found[0], languages))
    return f"written : {quote(text)}"


def _list_variants(word: str, languages: Sequence[str]) -> frozenset[str]:
    lower = _compose(word).lower()
    return frozenset({fold(word), *(_find_stem(lower, one) for one in languages)} - {""})


def _join_variants(variants: Iterable[str]) -> str:
    return f"({' OR '.join(quote(one) for one in sorted(variants))})"


def _build_term(
    connection: sqlite3.Connection, word: str, languages: Sequence[str], *, is_prefix: bool
) -> Term:
    if is_prefix:
        start = fold(word)
        row = connection.execute(
            "SELECT max(doc) FROM frequencies WHERE term >= ? AND term < ?",
            (start, f"{start}\U0010ffff"),
        ).fetchone()
        return Term(word, frozenset({start}), f"({quote(word)} *)", int(row[0] or 0), True)
    if _DENSE_CHARACTER.match(word):
        counts = [_count_passages(connection, character) for character in split_dense(word).split()]
        return Term(word, frozenset({fold(word)}), quote(word), min(counts, default=0))
    variants = _list_variants(word, languages)
    count = max(_count_passages(connection, one) for one in variants)
    return Term(word, variants, _join_variants(variants), count)


def _count_passages(connection: sqlite3.Connection, term: str) -> int:
    row = connection.execute("SELECT doc FROM frequencies WHERE term = ?", (fold(term),)).fetchone()
    return int(row[0]) if row else 0


def find_similar_word(connection: sqlite3.Connection, word: str, num_passages: int) -> str:
    """The word of the index that is spelled most like one that is not in it; empty if none is.

    The first letter is right, and in a large index, which takes longer to look through, the second.
    """
    folded = fold(word)
    if len(folded) < _MIN_MISSPELT or not folded.isalpha() or _DENSE_CHARACTER.match(folded):
        return ""
    start = folded[: 1 if num_passages <= _FEW_PASSAGES else 2]
    rows = connection.execute(
        "SELECT term, doc FROM frequencies WHERE term >= ? AND term < ?"
        " AND length(term) BETWEEN ? AND ? LIMIT ?",
        (start, f"{start}\U0010ffff", len(folded) - 1, len(folded) + 1, _MAX_SPELLINGS),
    ).fetchall()  # fmt: skip
    counts = {term: count for term, count in rows if term.isalpha()}
    near = difflib.get_close_matches(folded, counts, n=_MAX_NEAR, cutoff=_SPELLED_ALIKE)
    for term in sorted(near, key=lambda one: -counts[one]):
        written = "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1"  # a stem may be no word
        if connection.execute(written, (f"written : {quote(term)}",)).fetchone():
            return str(term)
    return ""


def _get_rarity(count: int, total: int) -> float:
    """What FTS5 weighs a word by; it is never quite nothing."""
    return max(1e-6, math.log(max(1.0, total - count + 0.5) / (count + 0.5)))


# -- ranking ---------------------------------------------------------------------------------------


def rank_passages(
    connection: sqlite3.Connection,
    query: KeywordQuery,
    limit: int,
    contents: Iterable[int] | None = None,
) -> dict[int, float]:
    """Passages, the best first, with the share of the question that their words cover: more than 1
    where they have them often, or in the form that was asked for.

    FTS5 takes 1 to 2 µs for each passage it ranks, so a word that stands in 70,000 costs 0.1 s and
    says little. Passages with one of the rarest words of a question are ranked first; the common
    words count for those as well. Where that finds too few, passages with all of the common words
    are ranked, and then those with any of them. All passages of a step are ranked, however many
    they are: FTS5 reads the oldest first, so a limit on them would drop the newest.

    Args:
        connection: to read.
        query: the question.
        limit: the most passages.
        contents: the only ones that may be found; all when None.
    """
    found: dict[int, float] = {}
    enough = limit // 4  # the depth of a search is at least four times what it shows
    for step in _list_steps(query):
        for expression in step:
            for passage, rank in _rank(connection, query, expression, limit, contents):
                found[passage] = min(rank, found.get(passage, 0.0))  # FTS5's best is the lowest
        if len(found) >= enough:
            break
    order = sorted(found.items(), key=lambda one: (one[1], one[0]))[:limit]
    weight = max(query.weight, 1e-6)
    return {passage: min(MAX_SHARE, max(0.0, -rank / weight)) for passage, rank in order}


def _list_steps(query: KeywordQuery) -> Iterator[list[str]]:
    """What to ask FTS5 for, until enough is found."""
    rare = " OR ".join(term.expression for term in query.rare)
    common = " OR ".join(term.expression for term in query.common)
    if rare:
        # The second gives a passage that has common words as well what these add to its rank.
        yield [rare, f"({rare}) AND ({common})"] if common else [rare]
    if len(query.common) > 1:
        yield [" AND ".join(term.expression for term in query.common)]
    if common:
        yield [common]


def limit_expression(query: KeywordQuery, expression: str) -> str:
    """An expression within what the question requires and excludes."""
    limited = " AND ".join([f"({expression})", *query.required])
    for excluded in query.excluded:
        limited = f"({limited}) NOT {excluded}"
    return limited


def _rank(
    connection: sqlite3.Connection,
    query: KeywordQuery,
    expression: str,
    limit: int,
    contents: Iterable[int] | None,
) -> list[tuple[int, float]]:
    # The plus: else SQLite would look for each of them by itself.
    only = "" if contents is None else (
        "AND +rowid IN (SELECT id FROM passages WHERE content IN (SELECT value FROM json_each(?)))"
    )  # fmt: skip
    given = [] if contents is None else [json.dumps(list(contents))]
    return connection.execute(
        f"SELECT rowid, rank FROM words WHERE words MATCH ? {only} ORDER BY rank, rowid LIMIT ?",
        [limit_expression(query, expression), *given, limit],
    ).fetchall()


def find_matching(connection: sqlite3.Connection, expression: str) -> list[int]:
    """All passages that match an expression."""
    rows = connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,))
    return [passage for (passage,) in rows]


def find_names(
    connection: sqlite3.Connection, query: KeywordQuery, limit: int
) -> list[tuple[int, float]]:
    """Files by their names and titles: content, and the share of the question that the name has."""
    if not query.terms:
        return []
    rows = connection.execute(
        "SELECT files.content, names.written, names.stemmed FROM names "
        "JOIN files ON files.id = names.rowid "
        "WHERE names MATCH ? AND files.content IS NOT NULL ORDER BY rank LIMIT ?",
        (" OR ".join(term.expression for term in query.terms), 4 * limit),
    ).fetchall()
    found: dict[int, float] = {}
    for content, written, stemmed in rows:
        here = set(split_dense(f"{fold(written)} {stemmed}").split()) | list_words(written)
        matched = [term for term in query.terms if _is_named(term, here)]
        found[content] = max(found.get(content, 0.0), query.weigh(matched))
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit]


def _is_named(term: Term, here: set[str]) -> bool:
    if term.is_prefix:
        return any(word.startswith(fold(term.word)) for word in here)
    return bool(term.variants & here)


# -- what is marked --------------------------------------------------------------------------------


class TermFinder:
    """Where a question's terms stand in passages of one language. A word is looked at once, however
    many passages have it.
    """

    def __init__(self, query: KeywordQuery, language: str) -> None:
        self._query, self._language = query, language
        plain = [term for term in query.terms if not term.is_dense]
        self._dense = [term.word for term in query.terms if term.is_dense]
        self._targets = frozenset[str]().union(
            *(term.variants for term in plain if not term.is_prefix)
        )
        self._starts = tuple(fold(term.word) for term in plain if term.is_prefix)
        self._known: set[str] = set()
        self._matching: set[str] = set()
        self._counts: dict[str, dict[int, float]] = {}

    def find_matches(self, text: str, words: Set[str]) -> list[tuple[int, int]]:
        """Where terms stand in a text, in order.

        Args:
            text: a passage.
            words: those of the text, lowercase.
        """
        new = words - self._known
        self._known |= new
        self._matching.update(filter(self._is_match, new))
        matching = words & self._matching
        if text.isascii():
            lower = text.lower()
            return sorted(span for word in matching for span in _find_word(lower, word))
        found: set[tuple[int, int]] = set()
        for match in _WORD.finditer(text) if matching or self._dense else ():
            if match[0].lower() in matching:
                found.add(match.span())
            elif self._dense and _DENSE_CHARACTER.match(match[0]):
                found.update(_find_within(match, self._dense))
        return sorted(found)

    def _is_match(self, word: str) -> bool:
        """Whether a word is one that a term stands for, by itself, its stem or its beginning."""
        if word in self._targets or _find_stem(word, self._language) in self._targets:
            return True
        if word.isascii() and not self._starts:
            return False
        folded = fold(word)
        return folded in self._targets or folded.startswith(self._starts)

    def find_best_sentence(
        self, text: str, matches: Sequence[tuple[int, int]]
    ) -> tuple[int, int] | None:
        """The sentence that has most of the question; None where none has a word of it.

        A word counts most as it was written: `founded` is not `found`. Short headings and questions
        count half: the answer is what follows them. The text is split only as far as a sentence may
        have more.

        Args:
            text: a passage.
            matches: of the question's words, as `find_matches` found them.
        """
        counts = [self._count_terms(text[low:high].lower()) for low, high in matches]
        rest: dict[int, float] = {}
        most_left = [0.0]
        """What a sentence can have from each match on."""
        for count in reversed(counts):
            _join_counts(rest, count)
            most_left.append(sum(rest.values()))
        most_left.reverse()
        best, most, at = None, 0.0, 0
        for start, end in find_sentences(text, self._language or "en") if matches else ():
            here: dict[int, float] = {}
            while at < len(matches) and matches[at][0] < end:
                if matches[at][0] >= start:
                    _join_counts(here, counts[at])
                at += 1
            if here:
                sentence = text[start:end]
                is_short = sentence.isascii() and len(sentence.split()) < _MIN_SENTENCE_WORDS
                is_half = is_short or sentence.rstrip().endswith("?")
                share = sum(here.values()) * (0.5 if is_half else 1.0)
                if share > most + 1e-9:
                    best, most = (start, end), share
            if most_left[at] <= most + 1e-9:
                break
        return best

    def _count_terms(self, word: str) -> dict[int, float]:
        """What each term counts that a word of a passage stands for, by its number."""
        if word not in self._counts:
            written = fold(word)
            forms = {written, _find_stem(word, self._language)}
            self._counts[word] = {
                number: self._query.weigh([term])
                * (1.0 if fold(term.word) == written else _OTHER_FORM)
                for number, term in enumerate(self._query.terms)
                if (term.word == word if term.is_dense else _is_named(term, forms))
            }
        return self._counts[word]


def _join_counts(counts: dict[int, float], others: dict[int, float]) -> None:
    for number, count in others.items():
        counts[number] = max(count, counts.get(number, 0.0))


def _find_word(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Where a word of ASCII stands by itself."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not (text[max(0, start - 1) : start].isalnum() or text[end : end + 1].isalnum()):
            yield start, end
        start = text.find(word, end)


def _find_within(match: re.Match[str], targets: Iterable[str]) -> Iterator[tuple[int, int]]:
    for one in targets:
        position = match[0].find(one)
        while position >= 0:
            yield match.start() + position, match.start() + position + len(one)
            position = match[0].find(one, position + len(one))
