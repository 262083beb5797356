"""A user's pronunciations: whole words, refused when wrong, and felt only where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import BadInput
from anyrig.speech.lexicon import Entry, Lexicon, load, parse
from anyrig.speech.prepare import prepare
from anyrig.speech.script import check
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


def _said(text: str, *entries: Entry, **wishes: object) -> str:
    settings: dict[str, object] = {"language": "en", "lexicon": Lexicon(entries), **wishes}
    script = prepare(text, **settings)  # type: ignore[arg-type]
    check(script)
    return " ".join(segment.line.text for segment in script.segments)


@pytest.mark.parametrize(
    ("text", "entry", "said"),
    [
        ("I saw Kokoro here.", Entry("Kokoro", say="ko-KO-ro"), "I saw ko-KO-ro here."),
        ("I saw Kokoros here.", Entry("Kokoro", say="ko-KO-ro"), "I saw Kokoros here."),
        ("I saw kokoro here.", Entry("Kokoro", say="x"), "I saw kokoro here."),
        ("I saw KOKORO here.", Entry("kokoro", say="x"), "I saw x here."),
        ("I saw Kokoro here.", Entry("kokoro", say="x", case="sensitive"), "I saw Kokoro here."),
        ("I saw kokoro here.", Entry("KOKORO", say="x", case="insensitive"), "I saw x here."),
        ("A New\n York minute", Entry("New York", say="Nieuw York"), "A Nieuw York minute"),
        ("An élan and élans", Entry("élan", say="ay-lahn"), "An ay-lahn and élans"),
        ("He knows C++ well", Entry("C++", say="see plus plus"), "He knows see plus plus well"),
        ("Call Dr. Lee now", Entry("Dr.", say="Doc"), "Call Doc Lee now"),
        ("Call Dr. Lee now", Entry("Lee", say="li"), "Call Doctor li now"),
        ("It cost $3.50 today", Entry("$3.50", say="a pittance"), "It cost a pittance today"),
        ("Get v12 and v3 now", Entry(pattern=r"v(\d+)", say=r"version \1"),
         "Get version 12 and version 3 now"),
        ("Der Hund ist da", Entry("Hund", say="x", language="de"), "Der Hund ist da"),
        ("It is 5 GB here", Entry("GB", say="gigs"), "It is five gigs here"),
    ],
)  # fmt: skip
def test_entries(text: str, entry: Entry, said: str) -> None:
    assert _said(text, entry) == said


def test_the_longest_and_the_nearest_win() -> None:
    entries = (Entry("York", say="a"), Entry("New York City", say="b"), Entry("New York", say="c"))
    assert _said("In New York City and New York, not York", *entries) == "In b and c, not a"
    own = (Entry("cat", say="any"), Entry("cat", say="own", language="en"))
    assert _said("A cat sat here", *own) == "A own sat here"


def test_ipa_is_for_engines_that_take_it() -> None:
    entry = Entry("tomato", ipa="təˈmɑːtəʊ")
    assert _said("One tomato only", entry, phonemes=True) == "One [[təˈmɑːtəʊ]] only"
    assert _said("One tomato only", entry) == "One tomato only"


@pytest.mark.parametrize(
    ("text", "phonemes", "said"),
    [
        ("Say [[kəˈkoʊɹoʊ]] to me", True, "Say [[kəˈkoʊɹoʊ]] to me"),
        ("Say [[kəˈkoʊɹoʊ]] to me", False, "Say to me"),
        ("Say [[Kokoro|ko-KO-ro]] to me", False, "Say ko-KO-ro to me"),
        ("Say [[Kokoro|/kəˈkoʊɹoʊ/]] to me", True, "Say [[kəˈkoʊɹoʊ]] to me"),
        ("Say [[Kokoro|/kəˈkoʊɹoʊ/]] to me", False, "Say Kokoro to me"),
        ("Go to [[Paris]] with me", True, "Go to Paris with me"),
        ("Say [[unclosed to me", True, "Say unclosed to me"),
        ("Say [[a. b. C. Dee|one]] to me. And so on it goes.", False,
         "Say one to me. And so on it goes."),
    ],
)  # fmt: skip
def test_inline(text: str, phonemes: bool, said: str) -> None:
    assert _said(text, Entry("Kokoro", say="overruled"), phonemes=phonemes) == said


def test_a_change_is_felt_only_where_it_is() -> None:
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    plain = prepare(text, language="en")
    changed = prepare(text, language="en", lexicon=Lexicon((Entry("Dinah", say="Deena"),)))
    check(changed)
    before = {segment.spans: segment.line for segment in plain.segments}
    touched = [one for one in changed.segments if before.get(one.spans) != one.line]
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
    assert load(commas).entries == (lexicon.entries[0], Entry("a, b", say="a and b"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[say]]\nword = 1\nsay = 'x'", "lexicon, entry 1: word is 1"),
        ("[[say]]\nword = 'a'", "not one of say and ipa"),
        ("[[say]]\nword = 'a'\nsay = 'b'\nipa = 'c'", "not one of say and ipa"),
        ("[[say]]\nsay = 'a'", "not one of word and pattern"),
        ("[[say]]\nword = 'a'\nsay = 'b'\n[[say]]\nword = 'a'\nsays = 'b'", "entry 2: 'says'"),
        ("[[say]]\nword = 'a'\nsay = 'b'\ncase = 'odd'", "case is 'odd'"),
        ("[[say]]\nword = 'a'\nipa = '[x]'", "no IPA"),
        ("[[say]]\nword = ''\nsay = 'b'", "word is ''"),
        ("[[say]\n", "no TOML"), ("say = 3", "not a list"), ("[other]\na = 1", "'other'"),
        ("[[say]]\npattern = '('\nsay = 'b'", "no regular expression"),
        ("[[say]]\npattern = 'a*'\nsay = 'b'", "matches the empty text"),
        ("[[say]]\npattern = '(a+)+b'\nsay = 'b'", "repeats a group"),
        ("[[say]]\npattern = '(a|aa)+b'\nsay = 'b'", "repeats a group"),
        ("[[say]]\npattern = '(a?){30}a{30}'\nsay = 'b'", "repeats a group"),
        ("[[say]]\npattern = 'a+b+c+d+e+'\nsay = 'b'", "more than 4"),
        ("[[say]]\npattern = 'a(b)'\nsay = '\\2'", "no group 2"),
        (f"[[say]]\npattern = '{'a' * 300}'\nsay = 'b'", "longer than"),
    ],
)  # fmt: skip
def test_wrong_entries_are_named(text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text)
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [("a\tb\na\n", "mine, line 2: 1 column"), ("a\tb\tde\tsmart\tx", "5 columns"),
     ("\n# x\na\tb\tde\todd", "line 3: case is 'odd'"), ('a\t"b', "line 1")],
)  # fmt: skip
def test_wrong_lines_are_named(text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text, name="mine", form="tsv")
    assert words in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path / "none.toml")


def test_many_entries() -> None:
    entries = tuple(Entry(f"word{number}", say=f"say{number}") for number in range(20_000))
    text = " ".join(f"word{number}" for number in range(0, 20_000, 7))
    marks = Lexicon(entries).marks(text, 0, len(text), "en")
    assert [mark.say for mark in marks] == [f"say{number}" for number in range(0, 20_000, 7)]
