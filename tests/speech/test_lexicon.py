"""A user's pronunciations: whole words, refused when wrong, and felt only where they are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import re2

from anyrig.app.lexicons import LexiconFiles
from anyrig.errors import InvalidInputError
from anyrig.speech.lexicon import LayeredLexicon, Lexicon, LexiconEntry, load, parse
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.segment import check_script
from tests.conftest import ROOT

_EXAMPLE = r"""
[[say]]
word = "Kokoro"
say = "ko-KO-ro"

[[say]]
word = "tomato"
ipa = "təˈmɑːtəʊ"
language = "en"
case = "insensitive"

[[say]]
pattern = 'v(\d+)'
say = 'version \1'
"""


def _said(text: str, *entries: LexiconEntry, **wishes: object) -> str:
    settings: dict[str, object] = {"language": "en", "lexicon": Lexicon(entries), **wishes}
    script = prepare(text, SpeechOptions(**settings))  # type: ignore[arg-type]
    check_script(script)
    return " ".join(segment.utterance.text for segment in script.segments)


ENTRIES = [
    ("I saw Kokoro here.", LexiconEntry("Kokoro", say="ko-KO-ro"), "I saw ko-KO-ro here."),
    ("I saw Kokoros here.", LexiconEntry("Kokoro", say="ko-KO-ro"), "I saw Kokoros here."),
    ("I saw KOKORO here.", LexiconEntry("kokoro", say="x"), "I saw x here."),
    ("I saw Kokoro here.", LexiconEntry("kokoro", say="x", case="sensitive"), "I saw Kokoro here."),
    ("A New\n York minute", LexiconEntry("New York", say="Nieuw York"), "A Nieuw York minute"),
    ("An élan and élans", LexiconEntry("élan", say="ay-lahn"), "An ay-lahn and élans"),
    ("He knows C++ well", LexiconEntry("C++", say="see plus plus"), "He knows see plus plus well"),
    ("Call Dr. Lee now", LexiconEntry("Dr.", say="Doc"), "Call Doc Lee now"),
    ("It cost $3.50 today", LexiconEntry("$3.50", say="a pittance"), "It cost a pittance today"),
    ("Get v12 and v3 now", LexiconEntry(pattern=r"v(\d+)", say=r"version \1"),
     "Get version 12 and version 3 now"),
    ("Der Hund ist da", LexiconEntry("Hund", say="x", language="de"), "Der Hund ist da"),
    ("It is 5 GB here", LexiconEntry("GB", say="gigs"), "It is five gigs here"),
]  # fmt: skip


def test_entries(subtests: pytest.Subtests) -> None:
    for text, entry, said in ENTRIES:
        with subtests.test(text=text, entry=entry):
            assert _said(text, entry) == said


def test_the_longest_and_the_nearest_win() -> None:
    entries = (
        LexiconEntry("York", say="a"),
        LexiconEntry("New York City", say="b"),
        LexiconEntry("New York", say="c"),
    )
    assert _said("In New York City and New York, not York", *entries) == "In b and c, not a"
    own = (LexiconEntry("cat", say="any"), LexiconEntry("cat", say="own", language="en"))
    assert _said("A cat sat here", *own) == "A own sat here"


def test_ipa_is_for_engines_that_take_it() -> None:
    entry = LexiconEntry("tomato", ipa="təˈmɑːtəʊ")
    assert _said("One tomato only", entry, reads=("ipa",)) == "One [[təˈmɑːtəʊ]] only"
    assert _said("One tomato only", entry) == "One tomato only"


@pytest.mark.parametrize(
    ("text", "phonemes", "said"),
    [
        ("Say [[kəˈkoʊɹoʊ]] to me", True, "Say [[kəˈkoʊɹoʊ]] to me"),
        ("Say [[Kokoro|ko-KO-ro]] to me", False, "Say ko-KO-ro to me"),
        ("Say [[Kokoro|/kəˈkoʊɹoʊ/]] to me", True, "Say [[kəˈkoʊɹoʊ]] to me"),
        ("Say [[Kokoro|/kəˈkoʊɹoʊ/]] to me", False, "Say Kokoro to me"),
        ("Say [[unclosed to me", True, "Say unclosed to me"),
        ("Say [[a. b. C. Dee|one]] to me. And so on it goes.", False,
         "Say one to me. And so on it goes."),
    ],
)  # fmt: skip
def test_inline(text: str, phonemes: bool, said: str) -> None:
    assert _said(text, LexiconEntry("Kokoro", say="overruled"), reads=("ipa",) * phonemes) == said


def test_a_change_is_felt_only_where_it_is() -> None:
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    plain = prepare(text, SpeechOptions(language="en"))
    changed = prepare(
        text, SpeechOptions(language="en", lexicon=Lexicon((LexiconEntry("Dinah", say="Deena"),)))
    )
    check_script(changed)
    before = {segment.spans: segment.utterance for segment in plain.segments}
    touched = [one for one in changed.segments if before.get(one.spans) != one.utterance]
    assert touched
    assert all("Dinah" in segment.text for segment in touched)
    assert len(touched) < len(changed.segments) / 10


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(_EXAMPLE, encoding="utf-8")
    lexicon = load(path)
    assert [entry.word or entry.pattern for entry in lexicon.entries] == [
        "Kokoro", "tomato", r"v(\d+)",
    ]  # fmt: skip
    table = tmp_path / "mine.tsv"
    table.write_text(
        "\ufeff# mine\nword\tsay\nKokoro\tko-KO-ro\n\ntomato\t/təˈmɑːtəʊ/\ten\tinsensitive\n",
        encoding="utf-8",
    )
    assert load(table).entries == lexicon.entries[:2]
    commas = table.with_suffix(".csv")
    commas.write_text('Kokoro,ko-KO-ro\n"a, b","a and b"\n', encoding="utf-8")
    assert load(commas).entries == (lexicon.entries[0], LexiconEntry("a, b", say="a and b"))


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="no such device here")
def test_a_device_is_no_file_and_not_read() -> None:
    """It never ends: reading it took all memory."""
    with pytest.raises(InvalidInputError, match="it is a device"):
        load(Path("/dev/zero"))


WRONG_ENTRIES = [
    ("[[say]]\nword = 1\nsay = 'x'", "lexicon, entry 1: invalid word 1"),
    ("[[say]]\nword = 'a'", "either `say` or `ipa`"),
    ("[[say]]\nsay = 'a'", "either `word` or `pattern`"),
    ("[[say]]\nword = 'a'\nsay = 'b'\n[[say]]\nword = 'a'\nsays = 'b'", "2: unknown key 'says'"),
    ("[[say]]\nword = 'a'\nsay = 'b'\ncase = 'odd'", "unknown case 'odd'"),
    ("[[say]]\nword = 'a'\nipa = '[x]'", "without brackets"),
    ("[[say]\n", "not valid TOML"), ("say = 3", "not a list"), ("[other]\na = 1", "'other'"),
    ("[[say]]\npattern = '('\nsay = 'b'", "not a valid regular expression"),
    ("[[say]]\npattern = 'a*'\nsay = 'b'", "matches empty text"),
    ("[[say]]\npattern = '((a{1,10}){1,10}){1,10}b'\nsay = 'b'", "too large"),
    ("[[say]]\npattern = 'a{2000}'\nsay = 'b'", "more than 1000 times"),
    ("[[say]]\npattern = '(a)\\1'\nsay = 'b'", "uses a backreference"),
    ("[[say]]\npattern = 'a(?=b)'\nsay = 'b'", "uses a lookahead or lookbehind"),
    ("[[say]]\npattern = '(?<!a)b'\nsay = 'b'", "uses a lookahead or lookbehind"),
    ("[[say]]\npattern = 'a++b'\nsay = 'b'", "possessive"),
    ("[[say]]\npattern = '(?x)a b'\nsay = 'b'", "flag"),
    ("[[say]]\npattern = '\\bÁvila'\nsay = 'b'", r"\b beside 'Á'"),
    ("[[say]]\npattern = '(cafe|café)\\b'\nsay = 'b'", r"\b beside 'é'"),
    ("[[say]]\npattern = '\\b(?:Roma|Ávila)'\nsay = 'b'", r"\b beside 'Á'"),
    ("[[say]]\npattern = '[\\Wx]y'\nsay = 'b'", r"has \W within"),
    ("[[say]]\nword = 'a'\nsay = 'b'\n[[say]]\npattern = 'a(?=b)'\nsay = 'b'", "entry 2"),
    ("[[say]]\npattern = 'a(b)'\nsay = '\\2'", "no group 2"),
    ("[[say]]\npattern = 'a(b)'\nsay = '\\q'", "invalid escape"),
    (f"[[say]]\npattern = '{'a' * 300}'\nsay = 'b'", "longer than"),
]  # fmt: skip


def test_wrong_entries_are_named(subtests: pytest.Subtests) -> None:
    for text, words in WRONG_ENTRIES:
        with subtests.test(text=text, words=words):
            with pytest.raises(InvalidInputError) as caught:
                parse(text)
            assert words in caught.value.message
            assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [("a\tb\na\n", "mine, line 2: 1 column"), ("a\tb\tde\tsmart\tx", "5 columns"),
     ("\n# x\na\tb\tde\todd", "line 3: unknown case 'odd'"), ('a\t"b', "line 1")],
)  # fmt: skip
def test_wrong_lines_are_named(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse(text, name="mine", form="tsv")
    assert words in caught.value.message


def test_many_entries() -> None:
    entries = tuple(LexiconEntry(f"word{number}", say=f"say{number}") for number in range(20_000))
    text = " ".join(f"word{number}" for number in range(0, 20_000, 7))
    marks = Lexicon(entries).find_marks(text, 0, len(text), "en")
    assert [mark.say for mark in marks] == [f"say{number}" for number in range(0, 20_000, 7)]


@pytest.mark.parametrize(
    "pattern",
    ["a*a*a*a*b", "(a+)+b", "(a|aa)+b", "(a?){30}a{30}b", "(?:a*)*b", "(.*)(.*)(.*)(.*)b",
     r"(\w+\s?)+!", "((a{1,10}){1,6})+b|c", "(a?){90}b|c"],
)  # fmt: skip
def test_no_pattern_is_slow_on_any_text(pattern: str) -> None:
    """Each of these takes a backtracking engine hours or years."""
    lexicon = parse(f"[[say]]\npattern = '{pattern}'\nsay = 'x'")
    text = "a" * 20_000
    assert lexicon.find_marks(text, 0, len(text), "en") == []


PATTERNS = [
    (r"\blan\b", "smart", "a lan, LAN, lans", ["lan", "LAN"]),
    (r"[^\W\d_]+", "smart", "élan 5", ["élan"]),
    (r"[\w-]+x", "smart", "é-x", ["é-x"]),
    (r"\u00e9\Z", "smart", "é é", ["é"]),
    (r"ÉCOLE", "insensitive", "École école", ["École", "école"]),
    (r"\w+-\w+", "smart", "l'été-là, наш-дом", ["été-là", "наш-дом"]),
    (r"\d+", "smart", "12 and ٣٤", ["12", "٣٤"]),
    (r"a\sb", "smart", "a\u00a0b a b", ["a\u00a0b", "a b"]),
    (r"(?i:k)m", "sensitive", "Km km KM", ["Km", "km"]),
    (r"x{,2}y", "smart", "xxxy y", ["xxy", "y"]),
    (r"(?m)^a", "smart", "a\na ba", ["a", "a"]),
    (r"a+?b|c", "smart", "aab c", ["aab", "c"]),
]  # fmt: skip


def test_patterns_match_as_python_does(subtests: pytest.Subtests) -> None:
    for pattern, case, text, found in PATTERNS:
        with subtests.test(pattern=pattern, case=case):
            lexicon = parse(f"[[say]]\npattern = '{pattern}'\nsay = 'x'\ncase = '{case}'")
            marks = lexicon.find_marks(text, 0, len(text), "en")
            assert [text[mark.start : mark.end] for mark in marks] == found


def test_groups_and_names_are_filled_in() -> None:
    entry = LexiconEntry(pattern=r"(?P<n>\d+)(kt|kn)(s)?", say=r"\g<n> knots\3 \\ \2")
    text = "12kt"
    [mark] = Lexicon((entry,)).find_marks(text, 0, len(text), "en")
    assert mark.say == "12 knots \\ kt"


def test_a_match_in_a_long_line_is_found_wherever_it_stands() -> None:
    lexicon = parse("[[say]]\npattern = 'v(\\d+) of the'\nsay = 'x'")
    text = "word " * 4_000 + "v12 of the " + "word " * 4_000 + "v3 of the"
    assert [mark.start for mark in lexicon.find_marks(text, 0, len(text), "en")] == [
        20_000, 40_011,
    ]  # fmt: skip


def test_a_file_accepted_once_opens_without_the_patterns_that_are_refused_now() -> None:
    text = (
        "[[say]]\nword = 'a'\nsay = 'b'\n[[say]]\npattern = 'x(?=y)'\nsay = 'b'\n"
        "[[say]]\npattern = 'z'\nsay = 'b'"
    )
    found = parse(text, lenient=True)
    assert [entry.word or entry.pattern for entry in found.entries] == ["a", "z"]
    assert len(found.left_out) == 1
    assert "entry 2" in found.left_out[0]
    assert "(line 4)" in found.left_out[0]


DAMAGED: dict[str, tuple[str | bytes, str]] = {
    "truncated": ("[[say]]\nword = 'a'\nsay = 'b'\n[[say]]\nword = 'c", "at the end, line 5"),
    "not TOML": ("nonsense\n", "line 1"),
    "random bytes": (b"\x00\xff\xfe\x80" * 100, "UTF-8"),
    "another table": ("[other]\nword = 'a'\n", "other"),
    "nested": ("a = " + "[" * 10_000, "nested"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named_and_left_out(tmp_path: Path, name: str) -> None:
    data, words = DAMAGED[name]
    path = tmp_path / "words.toml"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(InvalidInputError, match=words) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert load(path, lenient=True) == Lexicon(left_out=(caught.value.message,))
    path.unlink()
    path.mkdir()
    assert str(path) in load(path, lenient=True).left_out[0]


def test_a_damaged_entry_leaves_the_others() -> None:
    text = "[[say]]\nword = 'a'\nsay = 'b'\n\n[[say]]\nword = 1\nsay = 'b'\n[[say]]\nsay = 'c'"
    found = parse(text, lenient=True)
    assert [entry.word for entry in found.entries] == ["a"]
    assert found.left_out == (
        "lexicon, entry 2: invalid word 1 (line 5)",
        "lexicon, entry 3: needs either `word` or `pattern` (line 8)",
    )


def test_of_several_lexicons_the_first_counts() -> None:
    own = Lexicon((LexiconEntry("York", say="own"), LexiconEntry("gif", say="jiff")))
    owner = Lexicon(
        (
            LexiconEntry("New York", say="all"),
            LexiconEntry("GIF", say="all"),
            LexiconEntry("sea", say="all"),
        )
    )
    both = LayeredLexicon((own, owner))
    assert _said("New York, a GIF and the sea.", lexicon=both) == "New own, a jiff and the all."
    assert _said("New York, a GIF and the sea.", lexicon=owner) == "all, a all and the all."
    assert _said("New York.", lexicon=LayeredLexicon(())) == "New York."


@pytest.mark.parametrize("form", [r"word{n}-(\d+)", r"(\w+)ist{n}", r"[A-Z]{{2}}\d{{3}}{n}"])
def test_many_patterns_are_compiled_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def count(source: str, options: object) -> object:
        compiled.append(source)
        return compile_re2(source, options)

    compile_re2 = re2.compile
    monkeypatch.setattr(re2, "compile", count)
    entries = "".join(
        f"[[say]]\npattern = '{form.format(n=n)}'\nsay = 'x{n}'\n" for n in range(300)
    )
    lexicon = parse(entries)
    num_compiled = len(compiled)
    assert num_compiled <= 600
    names = ("old", "Ärzte", "Жанна", "œuvre", "東京", "niño", "Ωmega") * 15
    sentences = [f"The {name} “keeper” – nº {n} – saw word{n}-{n}." for n, name in enumerate(names)]
    began = time.process_time()
    for sentence in sentences:
        lexicon.find_marks(sentence, 0, len(sentence), "en")
    assert time.process_time() - began < 10  # it took half a second for each of them
    assert len(compiled) == num_compiled


def test_a_file_is_read_again_only_when_it_changes(tmp_path: Path) -> None:
    files, path = LexiconFiles(), tmp_path / "words.toml"
    path.write_text("[[say]]\nword = 'a'\nsay = 'b'")
    first, is_new = files.load(path)
    assert is_new
    assert files.load(path) == (first, False)
    assert files.load(path)[0] is first
    path.write_text("[[say]]\nword = 'a'\nsay = 'other'")
    assert files.load(path)[0].entries[0].say == "other"
