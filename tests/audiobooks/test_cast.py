"""The cast: its file with good errors, and each word of a chapter in one voice."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.audiobooks.cast import Cast, load_cast, parse_cast
from anyrig.audiobooks.casting import DIALOGUE, NARRATOR, Casting, suggest_roles
from anyrig.audiobooks.plan import build_plan
from anyrig.errors import InvalidInputError
from anyrig.speech.prepare import SpeechOptions
from anyrig.speech.segment import check_script
from anyrig.speech.source_text import VoiceStyle
from anyrig.text.document import Block, Chapter, Document, Metadata

_FILE = """
narrator = "nora"
dialogue = { voice = "dan", rate = 1.1 }

[roles]
"Tom Sawyer" = "tim"

[roles."Mrs. Dalloway"]
voice = "vera"
aliases = ["Clarissa", "the hostess"]
rate = 0.95
language = "en-GB"
pronoun = "she"

[[rules]]
pattern = '^Dear diary'
role = "Mrs. Dalloway"
whole = true

[[rules]]
chapter = "3-4,9"
voice = "rex"
"""
NORA, TIM, REX, DAN = (
    VoiceStyle(voice="nora"),
    VoiceStyle(voice="tim"),
    VoiceStyle(voice="rex"),
    VoiceStyle("", "dan", 1.1),
)
VERA = VoiceStyle("en-GB", "vera", 0.95)


@pytest.fixture
def cast() -> Cast:
    return parse_cast(_FILE)


def _spoken(cast: Cast, *texts: str, number: int = 1) -> list[list[tuple[str, str, VoiceStyle]]]:
    blocks = [Block(text) for text in texts]
    return [
        [(block.text[s.start : s.end], s.role, s.style) for s in found]
        for block, found in zip(blocks, Casting(cast, "en").split(blocks, number), strict=True)
    ]


def _document(*texts: str) -> Document:
    return Document(Metadata(language="en"), (Chapter("One", tuple(map(Block, texts))),))


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cast.toml"
    path.write_text("\ufeff" + _FILE, encoding="utf-8")
    cast = load_cast(path)
    assert cast == parse_cast(_FILE)
    assert cast.voices == ("nora", "dan", "tim", "vera", "rex")
    assert cast.genders == {"Mrs. Dalloway": "f"}
    assert cast.rules[1].chapters == ((3, 4), (9, 9))


@pytest.mark.parametrize(
    ("name", "role"),
    [("Tom", "Tom Sawyer"), ("SAWYER", "Tom Sawyer"), ("mrs. dalloway", "Mrs. Dalloway"),
     ("Clarissa", "Mrs. Dalloway"), ("hostess", "Mrs. Dalloway"), ("The Hostess", "Mrs. Dalloway"),
     ("Dalloway", None), ("Mr. Dalloway", None), ("Huck", None), ("", None)],
)  # fmt: skip
def test_a_name_finds_its_role(cast: Cast, name: str, role: str | None) -> None:
    found = cast.find_role(name)
    assert (found.name if found else None) == role


def test_a_part_of_two_names_is_nobodys() -> None:
    cast = parse_cast('[roles]\n"Tom Sawyer" = "a"\n"Sid Sawyer" = "b"')
    assert cast.find_role("Sawyer") is None
    assert cast.find_role("Sid") is not None


def test_each_word_is_in_one_voice(cast: Cast) -> None:
    (found,) = _spoken(cast, "“Yes,” said Tom, “but not today.” Clarissa said: “Why?”")
    assert found == [
        ("“Yes,”", "Tom Sawyer", TIM),
        (" said Tom, ", NARRATOR, NORA),
        ("“but not today.”", "Tom Sawyer", TIM),
        (" Clarissa said: ", NARRATOR, NORA),
        ("“Why?”", "Mrs. Dalloway", VERA),
    ]


def test_who_has_no_role_has_the_voice_of_dialogue(cast: Cast) -> None:
    (found,) = _spoken(cast, "“Yes,” said Huck.")
    assert found[0] == ("“Yes,”", DIALOGUE, DAN)
    (found,) = _spoken(parse_cast('[roles]\nTom = "tim"'), "“Yes,” said Huck.")
    assert found[0] == ("“Yes,”", DIALOGUE, VoiceStyle())


def test_turns_and_pronouns_go_by_roles(cast: Cast) -> None:
    found = _spoken(cast, "“Well?” said Tom.", "“No,” said Clarissa.", "“Why?”", "“So.”")
    roles = [stretches[0][1] for stretches in found]
    assert roles == ["Tom Sawyer", "Mrs. Dalloway"] * 2
    found = _spoken(cast, "Clarissa looked at Tom.", "“Well?” she said.")
    assert found[1][0][1] == "Mrs. Dalloway"


def test_only_paragraphs_are_talk(cast: Cast) -> None:
    kinds = ("heading", "table", "note", "code", "image", "poem", "item")
    blocks = [Block("“Yes,” said Tom.", kind) for kind in kinds]  # type: ignore[arg-type]
    for found in Casting(cast, "en").split(blocks, 1):
        assert [stretch.role for stretch in found] == [NARRATOR]


def test_a_page_number_ends_no_talk_and_a_heading_does(cast: Cast) -> None:
    talk = [Block("“Well?” said Tom."), Block("“No,” said Clarissa.")]
    for kind, role in (("page", "Tom Sawyer"), ("heading", DIALOGUE)):
        blocks = [*talk, Block("12", kind), Block("“Why?”")]  # type: ignore[arg-type]
        assert Casting(cast, "en").split(blocks, 1)[-1][0].role == role


def test_a_rule_gives_paragraphs_another_teller(cast: Cast) -> None:
    (found,) = _spoken(cast, "Dear diary, “Yes,” said Tom.")
    assert found == [("Dear diary, “Yes,” said Tom.", "Mrs. Dalloway", VERA)]
    (found,) = _spoken(cast, "“Yes,” said Tom.", number=4)
    assert found == [("“Yes,”", "Tom Sawyer", TIM), (" said Tom.", NARRATOR, REX)]
    (found,) = _spoken(cast, "He left.", number=5)
    assert found == [("He left.", NARRATOR, NORA)]


def test_the_voices_reach_the_segments_of_a_plan(cast: Cast) -> None:
    terms = SpeechOptions(languages=("en",))
    document = _document("“Yes,” said Tom, “but not today.”", "“Why?” asked Clarissa.")
    plan = build_plan(document, terms, language="en", casting=Casting(cast))
    script = plan.parts[0].script
    check_script(script)
    voices = [(segment.utterance.voice, segment.utterance.rate) for segment in script.segments]
    tale = [("nora", 1.0)]
    heard = [("tim", 1.0), *tale, ("tim", 1.0), ("vera", 0.95), *tale]
    assert voices[-5:] == heard


def test_a_paragraph_that_a_role_s_voice_cannot_speak_is_the_engine_s(cast: Cast) -> None:
    terms = SpeechOptions(languages=("en", "fr"), voices={"fr": "fanny"})
    french = "Il fait très beau aujourd'hui et nous allons tous ensemble au marché du village."
    document = _document("He left the house in the morning, as he always did.", french)
    english = {"nora": ("en",)}
    for spoken, voice in ((english, "fanny"), ({"nora": ("en", "fr")}, "nora"), ({}, "nora")):
        plan = build_plan(document, terms, language="en", casting=Casting(cast, "en", spoken))
        found = {segment.utterance.language: segment.utterance.voice for segment in plan.segments}
        assert found == {"en": "nora", "fr": voice}


def test_french_in_an_english_book_goes_by_its_own_marks(cast: Cast) -> None:
    block = Block("— Bonjour, dit Clarissa, je suis là.", language="fr")
    found = Casting(cast, "en").split([block], 1)[0]
    assert [s.role for s in found] == ["Mrs. Dalloway", NARRATOR, "Mrs. Dalloway"]


def test_the_report_counts_words(cast: Cast) -> None:
    shares = Casting(cast).count_words(_document("“Yes, yes,” said Tom.", "He left."))
    assert [(s.role, s.num_words, s.num_speeches) for s in shares] == [
        (NARRATOR, 4, 2), ("Tom Sawyer", 2, 1), ("Mrs. Dalloway", 0, 0),
    ]  # fmt: skip


def test_those_without_a_role_are_suggested(cast: Cast) -> None:
    long = "“" + "no, never, " * 20 + "never,” said Jim."
    document = _document("“Yes,” said Huck.", "“No,” said Tom.", "“Why?” asked Huck.", long)
    assert [(s.name, s.num_speeches) for s in suggest_roles(document)] == [
        ("Huck", 2), ("Tom", 1), ("Jim", 1),
    ]  # fmt: skip
    with_roles = suggest_roles(document, cast)
    assert [s.name for s in with_roles] == ["Huck", "Jim"]
    assert with_roles[0].example == "“Yes,”"
    assert len(with_roles[1].example) < 90
    assert suggest_roles(_document()) == []


_WRONG = [
    ("narator = 'x'", "unknown key 'narator'", "Did you mean 'narrator'?"),
    ("Tom = 'x'", "unknown key 'Tom'", "under [roles]"),
    ("[roles.Tom]\nvoice = 'a'\nalias = ['x']", "unknown key 'alias'", "'aliases'"),
    ("[roles.Tom]\nrate = 2", "no voice", "anyrig voices"),
    ("[roles.Tom]\nvoice = 'a'\nrate = 9", "invalid rate 9", "0.25 to 4"),
    ("[roles.Tom]\nvoice = 'a'\npronoun = 'it'", "unknown pronoun 'it'", "he, she"),
    ("[roles]\nTom = 'a'\n[roles.Ben]\nvoice = 'b'\naliases = ['tom']", "both", "one role"),
    ("[[rules]]\nvoice = 'a'", "every paragraph", "`chapter` or `pattern`"),
    ("[[rules]]\nchapter = 1", "either `voice` or `role`", "one of them"),
    ("[[rules]]\nchapter = 1\nrole = 'Tim'\n[roles]\nTom = 'a'", "no role 'Tim'", "'Tom'"),
    ("[[rules]]\nchapter = '5-3'\nvoice = 'a'", "chapter is '5-3'", "3-7,9"),
    ("[[rules]]\npattern = '(?=a)b'\nvoice = 'a'", "lookahead", "edge of a word"),
    ("[[rules]]\npattern = '((a{1,30}){1,30})'\nvoice = 'a'", "too large", "simpler"),
    ("narrator = ", "not valid TOML", "docs/cast.md"),
    ("", "names no voice", "narrator"),
]


def test_what_is_wrong_is_named(subtests: pytest.Subtests) -> None:
    for text, message, hint in _WRONG:
        with subtests.test(text=text, message=message):
            with pytest.raises(InvalidInputError) as raised:
                parse_cast(text, name="cast.toml")
            assert raised.value.message.startswith("cast.toml")
            assert message in raised.value.message
            assert hint in raised.value.hint


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_cast(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_cast(tmp_path / "bytes.toml")
