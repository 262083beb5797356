"""SSML: what it asks for is done, what it cannot have is said once, what is broken is refused."""

from __future__ import annotations

import pytest

from anyrig.errors import InvalidInputError
from anyrig.speech import ssml
from anyrig.speech.normalize import join_readable, verbalize
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.segment import Script, check_script
from anyrig.speech.ssml import say_as


def _script(inner: str, **wishes: object) -> Script:
    settings: dict[str, object] = {"language": "en", "languages": ("en", "es"), **wishes}
    script = prepare(f"<speak>{inner}</speak>", SpeechOptions(**settings))  # type: ignore[arg-type]
    check_script(script)
    return script


def _lines(inner: str, **wishes: object) -> list[str]:
    return [segment.utterance.text for segment in _script(inner, **wishes).segments]


WORDS = [
    ("You &amp; me &#8211; now", "You and me – now"),
    ('I like the <sub alias="World Wide Web">WWW</sub>.', "I like the World Wide Web."),
    ('<say-as interpret-as="characters">abc1</say-as> it is', "A B C one it is"),
    ('Call <say-as interpret-as="telephone">+1 555-0100</say-as>.',
     "Call plus one, five five five, zero one zero zero."),
    ('On <say-as interpret-as="date" format="dmy">4/5/2024</say-as>.',
     "On May fourth, twenty twenty-four."),
    ('You <say-as interpret-as="expletive">fool</say-as>!', "You bleep!"),
    ('<say-as interpret-as="nonsense">Two words</say-as> here', "Two words here"),
    ("<w>read</w> <![CDATA[this & that]]> here", "read this and that here"),
    ("[[Kokoro|ko-KO-ro]] is said", "ko-KO-ro is said"),
    ("it is <!-- not --> here", "it is here"),
]  # fmt: skip


def test_words(subtests: pytest.Subtests) -> None:
    for written, said in WORDS:
        with subtests.test(written=written, said=said):
            assert _lines(written) == [said]


def test_phonemes_only_for_engines_that_take_them() -> None:
    written = 'I say <phoneme alphabet="ipa" ph="təˈmɑːtəʊ">tomato</phoneme> now.'
    assert _lines(written, reads=("ipa",)) == ["I say [[təˈmɑːtəʊ]] now."]
    plain = _script(written + written)
    assert plain.segments[0].utterance.text.startswith("I say tomato now.")
    assert [words for words in plain.warnings if "IPA" in words] == list(plain.warnings)
    assert len(plain.warnings) == 1
    assert _lines('I say <phoneme ph="təˈmɑːtəʊ"/> now.', reads=("ipa",)) == [
        "I say [[təˈmɑːtəʊ]] now."
    ]
    other = _script('I say <phoneme alphabet="x-sampa" ph="t@">tomato</phoneme> now.')
    assert "x-sampa" in other.warnings[0]


@pytest.mark.parametrize(
    ("rate", "factor"),
    [("x-slow", 0.6), ("slow", 0.8), ("medium", 1.0), ("fast", 1.25), ("x-fast", 1.5),
     ("90%", 0.9), ("+10%", 1.1), ("-10%", 0.9), ("1.2", 1.2), ("900%", 4.0), ("5%", 0.25)],
)  # fmt: skip
def test_rates(rate: str, factor: float) -> None:
    script = _script(f'<prosody rate="{rate}">So it is said.</prosody>')
    assert script.segments[0].utterance.rate == pytest.approx(factor)
    assert not script.warnings


def test_rates_multiply() -> None:
    inner = '<prosody rate="50%">One slow <prosody rate="150%">and one fast</prosody></prosody>'
    rates = [segment.utterance.rate for segment in _script(inner, rate=2.0).segments]
    assert rates == [1.0, 1.5]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [('time="500ms"', 0.5), ('time="2s"', 2.0), ('time="1.5 s"', 1.5), ('time="1h"', 0.4),
     ('time="99s"', 10.0), ('strength="none"', 0.0), ('strength="x-strong"', 1.2), ("", 0.4),
     ('strength="odd"', 0.4)],
)  # fmt: skip
def test_breaks(given: str, seconds: float) -> None:
    script = _script(f"I came here <break {given}/> and left it.")
    assert [segment.utterance.text for segment in script.segments] == [
        "I came here",
        "and left it.",
    ]
    assert script.segments[0].pause_after_s == pytest.approx(seconds)


def test_breaks_at_the_ends_and_between_sentences() -> None:
    script = _script('<break time="1s"/>No. <break time="2s"/><break time="1s"/>Yes.<break/>')
    first, last = script.segments
    assert (first.pause_before_s, first.pause_after_s) == (1.0, 3.0)
    assert (last.utterance.text, last.pause_after_s) == ("Yes.", 0.4)


def test_voices_languages_and_emphasis() -> None:
    script = _script(
        'She said: <voice name="bob">Come with me.</voice> '
        '<lang xml:lang="es-MX">Buenos días a todos.</lang> <emphasis>Really</emphasis>!',
        voice="amy", voices={"es": "eva"},
    )  # fmt: skip
    got = [
        (one.utterance.text, one.utterance.voice, one.utterance.language) for one in script.segments
    ]
    assert got == [
        ("She said:", "amy", "en"), ("Come with me.", "bob", "en"),
        ("Buenos días a todos.", "eva", "es"), ("Really!", "amy", "en"),
    ]  # fmt: skip
    assert script.segments[-1].utterance.rate == 0.92
    assert script.languages == ("en", "es")


def test_paragraphs_and_sentences() -> None:
    script = _script("<p><s>It is so</s><s>and not so</s></p><p>The end of it</p>", join_words=0)
    assert [one.utterance.text for one in script.segments] == [
        "It is so",
        "and not so",
        "The end of it",
    ]
    assert [one.pause_after_s for one in script.segments] == [0.3, 0.6, 0.0]


def test_what_is_not_supported_is_said_once_and_not_spoken() -> None:
    script = _script(
        '<audio src="a.mp3">First sound here.<desc>bell</desc></audio> <audio>Second.</audio> '
        '<prosody pitch="high" volume="loud">Third of them.</prosody> <voice>Fourth one.</voice>'
    )
    words = " ".join(segment.utterance.text for segment in script.segments)
    assert words == "First sound here. Second. Third of them. Fourth one."
    assert len(script.warnings) == len(set(script.warnings)) == 5
    assert sum("<audio>" in warning for warning in script.warnings) == 1
    kinds = {script.source[slice(*each.span)]: each.kind for each in script.omissions}
    assert kinds["bell"] == "unsupported"
    assert kinds["</audio>"] == "markup"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<speak>a & b</speak>", "line 1, column 11: not well-formed"),
        ("<speak>\n é <b>x</speak>", "line 2, column 10: mismatched tag"),
        ("<speak>&nbsp;</speak>", "line 1, column 8: undefined entity"),
        ("<speak>", "no element found"),
        ('<?xml version="1.0"?><!DOCTYPE speak SYSTEM "file:///etc/passwd"><speak/>', "DOCTYPE"),
        ('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><speak>&b;</speak>', "DOCTYPE"),
        ("<p>no speak</p>", "begins with <speak>"),
    ],
)  # fmt: skip
def test_what_is_broken_or_hostile(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        prepare(text, SpeechOptions(ssml=True))
    assert words in caught.value.message
    assert caught.value.hint


def test_deep_elements() -> None:
    deep = "<s>" * 20_000 + "It is deep." + "</s>" * 20_000
    assert _lines(deep) == ["It is deep."]


@pytest.mark.parametrize(
    ("text", "is_ssml"),
    [
        ("<speak>Hi</speak>", True), ("\ufeff\n <speak version='1.1'>Hi</speak>", True),
        ('<?xml version="1.0"?>\n<speak>Hi</speak>', True), ("<speaker>Hi", False),
        ("He wrote <speak>Hi</speak>", False), ("", False),
    ],
)  # fmt: skip
def test_what_looks_like_it(text: str, is_ssml: bool) -> None:
    assert ssml.is_ssml(text) == is_ssml
    if is_ssml:
        check_script(prepare(text))


@pytest.mark.parametrize("before", ["", '<?xml version="1.0"?>\n<!-- of 2024 -->\n'])
def test_a_document_type_before_speak_is_refused_and_not_read_aloud(before: str) -> None:
    text = before + '<!DOCTYPE speak SYSTEM "speak.dtd"><speak>Hello.</speak>'
    with pytest.raises(InvalidInputError, match="document type"):
        prepare(text, SpeechOptions(languages=("en",)))


def test_a_comment_before_speak_is_no_text() -> None:
    script = prepare("<!-- draft --><speak>Hello there.</speak>", SpeechOptions(languages=("en",)))
    assert [segment.text for segment in script.segments] == ["Hello there."]
    assert not ssml.is_ssml("<!-- draft " * 10_000)


def test_marked_words_do_not_decide_the_language_of_the_rest() -> None:
    text = (
        '<speak>Hi <lang xml:lang="de">Guten Tag.</lang> '
        '<lang xml:lang="es">Muchas gracias por todo, señor, y buenos días.</lang></speak>'
    )
    script = prepare(text, SpeechOptions(languages=("en", "es")))
    told = [(segment.utterance.text, segment.utterance.language) for segment in script.segments]
    assert told == [
        ("Hi Guten Tag.", "en"), ("Muchas gracias por todo, señor, y buenos días.", "es"),
    ]  # fmt: skip
    assert script.warnings == ("'Guten Tag.' is marked as German and is read as English",)


WAYS = [
    ("characters", "ñu9", "es", "Ñ U nueve"),
    ("ordinal", "2", "fr", "deuxième"),
    ("number", "-3.5", "en", "minus three point five"),
    ("telephone", "06 12", "fr", "zéro six, un deux"),
    ("date dmy", "1/5/1999", "en", "May first, nineteen ninety-nine"),
    ("date dmy", "1/5/1999", "es", "uno de mayo de mil novecientos noventa y nueve"),
    ("date md", "12/25", "en", "December twenty-fifth"),
    ("time", "14:30", "en", "fourteen thirty"),
    ("characters", "", "en", ""),
    ("ordinal", "many", "en", "many"),
]  # fmt: skip


def test_ways(subtests: pytest.Subtests) -> None:
    for interpret, text, language, said in WAYS:
        with subtests.test(interpret=interpret, text=text):
            tokens = say_as(text, interpret, language)
            assert tokens is not None
            assert join_readable(verbalize(tokens, language)) == said
