"""From a text to a script: languages, pauses, seeds, and what cannot be spoken."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.errors import (
    InvalidInputError,
    UnspeakableTextError,
    UnsupportedLanguageError,
    render,
)
from anyrig.speech import ssml
from anyrig.speech.lexicon import Lexicon, LexiconEntry
from anyrig.speech.paragraphs import find_paragraphs
from anyrig.speech.prepare import SpeechOptions, compute_seed, prepare
from anyrig.speech.segment import Pauses, Script, check_script
from tests.conftest import ROOT

_ENGLISH = "It was a dark night in the old town, and nobody was out in the streets."
_FRENCH = (
    "Il est parti hier soir avec sa sœur, et il ne reviendra pas avant la fin de la semaine "
    "prochaine, dit-elle à tout le monde."
)


def _lines(script: Script) -> list[tuple[str, str]]:
    check_script(script)
    return [(segment.utterance.language, segment.utterance.text) for segment in script.segments]


def test_a_sentence() -> None:
    script = prepare("Dr. Lee paid $3.50 for it.", SpeechOptions(languages=("en",)))
    check_script(script)
    (segment,) = script.segments
    assert segment.utterance.text == "Doctor Lee paid three dollars and fifty cents for it."
    assert segment.text == script.source
    assert segment.spans == ((0, len(script.source)),)
    assert script.languages == ("en",)


@pytest.mark.parametrize(
    ("text", "language", "languages"),
    [(_FRENCH, "fr", ("en",)), (_ENGLISH, "en", ("es",)), ("Привет мир", "ru", ("en",))],
)  # fmt: skip
def test_a_foreign_text_is_refused(text: str, language: str, languages: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedLanguageError) as caught:
        prepare(text, SpeechOptions(languages=languages))
    assert caught.value.language == language
    assert isinstance(caught.value, UnspeakableTextError)
    assert f"--language {languages[0]}" in render(caught.value.hint, "command")


def test_a_named_language_is_taken_at_its_word() -> None:
    assert (
        _lines(prepare("Bonjour tout le monde.", SpeechOptions(languages=("en",), language="en")))[
            0
        ][0]
        == "en"
    )
    with pytest.raises(UnsupportedLanguageError):
        prepare("Hello to you.", SpeechOptions(languages=("en",), language="de"))
    assert prepare(
        "Hello to you.", SpeechOptions(languages=("en",), language="en-GB")
    ).languages == ("en",)


def test_a_foreign_paragraph() -> None:
    text = f"{_ENGLISH}\n\n{_FRENCH}\n\n{_ENGLISH} {_ENGLISH}"
    script = prepare(text, SpeechOptions(languages=("en", "fr"), voice="amy", voices={"fr": "zoé"}))
    check_script(script)
    spoken = [(segment.utterance.language, segment.utterance.voice) for segment in script.segments]
    assert spoken == [("en", "amy"), ("fr", "zoé"), ("en", "amy"), ("en", "amy")]
    assert script.languages == ("en", "fr")
    with pytest.raises(UnsupportedLanguageError, match="a paragraph .*Il est parti"):
        prepare(text, SpeechOptions(languages=("en",)))


def test_a_foreign_sentence_is_read_with_the_rest_and_told() -> None:
    script = prepare(
        f"{_ENGLISH}\n\nIl est parti hier soir.\n\n{_ENGLISH}",
        SpeechOptions(languages=("en", "fr")),
    )
    assert script.languages == ("en",)
    assert script.warnings == (
        "'Il est parti hier soir.' seems to be French and is read as English",
    )


@pytest.mark.parametrize("text", ["", "  \n\n ", "😀😀", "---", "\x00", "\ud800", "...", "[[ə]]"])
def test_nothing_to_say(text: str) -> None:
    with pytest.raises(UnspeakableTextError, match="nothing to say") as caught:
        prepare(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "line"),
    [("A z" + "\u0301" * 100 + "oo here", "A źoo here"),
     ("A q" + "\u0301" * 100 + " here", "A q here"),
     ("He" + "\u0308\u0301" * 50 + "llo there", "Hëllo there"),
     ("o" + "\u0489" * 200 + " so", "o so"), ("5" + "\u20dd" * 100 + " ways", "five ways"),
     ("Cafe\u0301 it is", "Cafe\u0301 it is"),
     ("Việt Nam và Tiếng Việt", "Việt Nam và Tiếng Việt")],
)  # fmt: skip
def test_marks_without_end_leave_the_letter(text: str, line: str) -> None:
    (segment,) = prepare(text, SpeechOptions(language="en")).segments
    assert segment.utterance.text == line
    assert segment.text == text


def test_what_is_left_out_has_a_name() -> None:
    text = "It\x00 is so.\n\n* * *\n\n😀\n\n\ue000\n\nAnd so on it goes."
    script = prepare(text)
    check_script(script)
    kinds = {text[slice(*each.span)]: each.kind for each in script.omissions}
    assert {key: kind for key, kind in kinds.items() if kind != "space"} == {
        "\x00": "control", "* * *": "symbol", "😀": "symbol", "\ue000": "unspeakable",
    }  # fmt: skip


def test_pauses() -> None:
    pauses = Pauses(clause_s=1, sentence_s=2, dialogue_s=3, paragraph_s=4, heading_s=5)
    text = (
        "CHAPTER I\n\nIt was very late at night. Nobody was there, or so it seemed to him then.\n\n"
        "“Who is it there?”\n\n“It is only me.”\n\nThen all was quiet again.\n\n* * *\n\n"
        "The next day came."
    )
    script = prepare(text, SpeechOptions(pauses=pauses, max_chars=45))
    assert [(one.utterance.text, one.kind, one.pause_after_s) for one in script.segments] == [
        ("CHAPTER one.", "heading", 5), ("It was very late at night.", "sentence", 2),
        ("Nobody was there,", "sentence", 1), ("or so it seemed to him then.", "sentence", 4),
        ('"Who is it there?"', "dialogue", 3), ('"It is only me."', "dialogue", 4),
        ("Then all was quiet again.", "sentence", 5), ("The next day came.", "sentence", 0),
    ]  # fmt: skip


def test_a_segment_sounds_the_same_wherever_it_stands() -> None:
    one = prepare(f"{_ENGLISH} It is so, she said. {_ENGLISH}", SpeechOptions(seed=3))
    other = prepare(
        "It is so, she said. Well, I never heard of that in my life.", SpeechOptions(seed=3)
    )
    lines = [segment.utterance for segment in one.segments]
    assert lines[0] == lines[-1]
    assert lines[1] == other.segments[0].utterance
    assert lines[0].seed != lines[1].seed
    assert prepare(_ENGLISH, SpeechOptions(seed=4)).segments[0].utterance.seed != lines[0].seed
    assert compute_seed("Hello.", 0) == 2090658548  # never changes: every kept take hangs on it


def test_a_changed_sentence_leaves_the_others_alone() -> None:
    sentences = [f"The {word} sentence of the book says so." for word in ("first", "next", "last")]
    before = [segment.utterance for segment in prepare(" ".join(sentences)).segments]
    sentences[1] = "A wholly other sentence stands here now."
    after = [segment.utterance for segment in prepare(" ".join(sentences)).segments]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000, "Hi. " * 5_000, '(( "« a ' * 3_000, "." * 100_000 + "a", "a\n" * 20_000,
        "a" + " " * 100_000 + "b", "[[" * 10_000 + "a", "1" * 20_000, "a,b" * 10_000,
        "\r" * 50_000 + "a", "<" * 10_000 + "a", "*" * 50_000 + "a", "Hi you.\n\n" * 2_000,
    ],
    ids=lambda text: repr(text[:8]),
)  # fmt: skip
def test_odd_long_texts_are_no_trouble(text: str) -> None:
    """Each of these would take minutes where time grew with the square of the length."""
    check_script(prepare(text, SpeechOptions(language="en")))


def test_the_first_sentence_is_cut_at_punctuation_and_only_for_slow_engines() -> None:
    text = "They had lived at the end of the lane for years, and nobody knew them. It was so."
    for seconds, first in (
        (0.0, "They had lived at the end of the lane for years, and nobody knew them."),
        (0.001, "They had lived at the end of the lane for years, and nobody knew them."),
        (0.02, "They had lived at the end of the lane for years,"),
    ):
        script = prepare(text, SpeechOptions(seconds_per_character=seconds, join_words=0))
        assert script.segments[0].spoken == first
        check_script(script)
    unbroken = "They had lived at the end of the lane for years without a single visit from us."
    assert len(prepare(unbroken, SpeechOptions(seconds_per_character=1.0)).segments) == 1


TABLES = ROOT / "tests" / "speech" / "normalize"


@pytest.mark.parametrize(
    "language", sorted(path.name for path in TABLES.iterdir() if list(path.glob("*.tsv")))
)
def test_the_tables_of_spoken_forms_hold_through_prepare(language: str) -> None:
    rows = [
        line.split("\t")[:2]
        for path in sorted((TABLES / language).glob("*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "\t" in line and not line.startswith("#")
    ]
    other = []
    for cells in rows:
        written, wanted = (cell.replace("\\n", "\n").replace("\\t", "\t") for cell in cells)
        if not any(map(str.isalnum, wanted)):
            continue
        script = prepare(written, SpeechOptions(language=language, ssml=False))
        spoken = " ".join(segment.spoken for segment in script.segments)
        if spoken.removesuffix(".") != wanted.removesuffix("."):
            other.append((written, wanted, spoken))
    assert len(rows) > 300
    assert len(other) <= len(rows) // 200, other


_ANY = st.text(st.characters(exclude_categories=()), max_size=120)
_PIECES = st.lists(
    st.sampled_from(
        ["Dr. ", "$3.50 ", "5 p.m. ", "Yes. ", "No! ", "the cat", " sat", ", and ", ". ", "...",
         "\n", "\n\n", "# ", "- ", "“", "”", "[[", "]]", "|", "/", "ˈkəʊ", "[[Lee|li]]",
         "[[kəˈkoʊ]]", "[[cat|/kæt/]]", "😀", "---",
         "* * *", "\x00", "\u200b", "\ud800", "\ufffc", "&amp;",
         "<b>", "www.example.com", "1234567890", "CHAPTER IV", "inter-\nnational", "\u00ad", "é",
         "x" * 50]
    ),
    max_size=25,
).map("".join)  # fmt: skip
_LEXICON = Lexicon(
    (
        LexiconEntry("cat", say="feline"), LexiconEntry("the cat sat", ipa="kæt"),
        LexiconEntry("Dr.", say="Doc"),
        LexiconEntry(pattern=r"(\d)\d", say=r"\1 and so on"), LexiconEntry("50", say="many"),
    )
)  # fmt: skip
_TAGS = st.sampled_from(
    [("p", {}), ("s", {}), ("emphasis", {"level": "strong"}), ("prosody", {"rate": "90%"}),
     ("sub", {"alias": "in its place"}), ("phoneme", {"ph": "kæt"}), ("voice", {"name": "bob"}),
     ("say-as", {"interpret-as": "characters"}), ("say-as", {"interpret-as": "date"}),
     ("lang", {"xml:lang": "es"}), ("audio", {"src": "a>b"}), ("desc", {}), ("w", {})]
)  # fmt: skip
_WORDS = (_PIECES | st.text(max_size=20)).map(
    lambda text: escape("".join(one for one in text if one.isprintable() or one in "\n\t"))
)


def _element(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def written(tag: tuple[str, dict[str, str]], parts: list[str]) -> str:
        name, given_ = tag
        attributes = "".join(f" {key}={quoteattr(value)}" for key, value in given_.items())
        return f"<{name}{attributes}>{''.join(parts)}</{name}>"

    return st.builds(written, _TAGS, st.lists(inner, max_size=3))


_SSML = st.lists(
    st.recursive(
        _WORDS | st.sampled_from(
            ['<break time="1s"/>', "<!-- no -->", "<![CDATA[a & <b>]]>", '<phoneme ph="kæt"/>',
             "&#233;", "&lt;", "<?pi x?>", "\r\n"]
        ),
        _element, max_leaves=8,
    ),
    max_size=5,
).map(lambda parts: f"<speak>{''.join(parts)}</speak>")  # fmt: skip


def _told(text: str, **wishes: object) -> Script | None:
    """The script, checked; None where there is nothing to say."""
    try:
        script = prepare(text, SpeechOptions(**wishes))  # type: ignore[arg-type]
    except UnspeakableTextError:
        return None
    check_script(script)
    for segment in script.segments:
        assert segment.utterance.text.strip()
        assert segment.spoken.strip()
        assert any(map(str.isalnum, segment.utterance.text))
    for omission in script.omissions:
        if omission.kind == "space":
            assert not text[slice(*omission.span)].strip()
    return script


@settings(deadline=None)
@given(
    _ANY | _PIECES, st.sampled_from([20, 60, 400]), st.booleans(), st.booleans(),
    st.sampled_from(["en", "es", "de"]),
)  # fmt: skip
def test_any_text(text: str, limit: int, phonemes: bool, first_short: bool, language: str) -> None:
    script = _told(
        text, max_chars=limit, reads=("ipa",) * phonemes, seconds_per_character=0.01 * first_short,
        language=language,
        lexicon=_LEXICON, ssml=False,
    )  # fmt: skip
    for segment in script.segments if script else ():
        words = segment.utterance.text
        assert len(words) <= limit or "[[" in words
        if not phonemes:
            assert "[[" not in words


@settings(deadline=None)
@given(_SSML, st.sampled_from([20, 400]), st.booleans())
def test_any_ssml(text: str, limit: int, phonemes: bool) -> None:
    script = _told(
        text, max_chars=limit, reads=("ipa",) * phonemes, language="en", languages=("en", "es")
    )
    for segment in script.segments if script else ():
        assert "<break" not in segment.utterance.text


@settings(deadline=None)
@given(st.text("<>/&;!-[]\"'= speakbr\n\x00é", max_size=60))
def test_broken_ssml_is_refused_with_its_place(text: str) -> None:
    try:
        flow = ssml.read_ssml(f"<speak>{text}</speak>")
    except InvalidInputError as error:
        assert re.search("line 1|line [0-9]+, column [0-9]+|document type", error.message)  # noqa: PT017 - it may as well be whole
    else:
        assert len(flow.text) <= len(text)


@pytest.mark.parametrize("limit", [60, 200, 400])
def test_a_book(limit: int) -> None:
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    script = _told(text, max_chars=limit, seconds_per_character=0.01, languages=("en",))
    assert script is not None
    assert max(len(segment.utterance.text) for segment in script.segments) <= limit
    assert {omission.kind for omission in script.omissions} == {"space", "symbol"}
    assert script.languages == ("en",)
    spoken = sum(end - start for segment in script.segments for start, end in segment.spans)
    assert spoken > 0.95 * len(text)


def _kinds(text: str) -> list[tuple[str, str]]:
    return [(each.kind, text[each.start : each.end]) for each in find_paragraphs(text)]


HEADINGS = [
    "# Title", "CHAPTER I", "Chapter 12: The End", "CHAPTER TWO", "DOWN THE RABBIT-HOLE",
    "Chapitre XII", "Prologue", "Kapitel 7.", "Act I", "Libro segundo", "Volume Two: The Sea",
    "Chapter the Last", "First Part", "Erster Teil", "Title\n=====", "Smaller title\n---",
]  # fmt: skip


def test_headings(subtests: pytest.Subtests) -> None:
    for line in HEADINGS:
        with subtests.test(line=line):
            assert _kinds(f"{line}\n\nIt was so.") == [
                ("heading", line),
                ("sentence", "It was so."),
            ]


NO_HEADINGS = [
    "NO!", "Act now.", "Book now: rooms are few.", "Act first.", "Act mild.", "Book.",
    "Chapter closed.", "Part I was over.", "One letter.", "Act. Do not wait.", "Parte mi pan.",
    "Acto seguido.", "Canto yo.", "Partie remise.", "Un livre.", "Teil mit mir.",
    "The chapter was long, and he read on.", "#hashtag",
    "IT IS A VERY LONG CRY IN CAPITALS THAT GOES ON AND ON AND NEVER STOPS",
]  # fmt: skip


def test_no_headings(subtests: pytest.Subtests) -> None:
    for line in NO_HEADINGS:
        with subtests.test(line=line):
            assert _kinds(line) == [("sentence", line)]


def test_a_heading_without_a_blank_line() -> None:
    assert [kind for kind, _ in _kinds("# One\nIt was so.\nAnd so.\n## Two\nMore.")] == [
        "heading", "sentence", "heading", "sentence",
    ]  # fmt: skip
    assert _kinds("CHAPTER I\nIt was so.")[0] == ("heading", "CHAPTER I")


def test_speeches() -> None:
    text = "He came in.\n— ¿Quién es?\n— Soy yo.\n“Go!” he said.\nThen he left."
    assert _kinds(text) == [
        ("sentence", "He came in."), ("dialogue", "— ¿Quién es?"), ("dialogue", "— Soy yo."),
        ("dialogue", "“Go!” he said.\nThen he left."),
    ]  # fmt: skip


def test_speakers() -> None:
    assert _kinds("ALICE: Who are you?\nThe Cat: A cat,\nof course.\nALICE: Oh.") == [
        ("dialogue", "ALICE: Who are you?"), ("dialogue", "The Cat: A cat,\nof course."),
        ("dialogue", "ALICE: Oh."),
    ]  # fmt: skip


def test_items() -> None:
    assert _kinds("Buy:\n- eggs\n- milk and\n  honey\n\n1. One\n2. Two") == [
        ("sentence", "Buy:"), ("dialogue", "- eggs"), ("dialogue", "- milk and\n  honey"),
        ("dialogue", "1. One\n2. Two"),
    ]  # fmt: skip


def test_wrapped_lines_are_one_paragraph() -> None:
    """A quotation mark that the wrapping put first is chance."""
    text = (
        "`I wonder how many miles I've fallen by this time?' she said aloud.\n"
        "`I must be getting somewhere near the centre of the earth.  Let\nme see.'"
    )
    assert len(find_paragraphs(text)) == 1


@settings(deadline=None)
@given(st.text(st.sampled_from('ab #-=*\n\r\u2029I."“—1)') | st.characters(), max_size=80))
def test_between_blocks_is_only_white_space(text: str) -> None:
    position = 0
    for each in find_paragraphs(text):
        assert not text[position : each.start].strip()
        assert text[each.start : each.end].strip() == text[each.start : each.end] != ""
        position = each.end
    assert not text[position:].strip()
