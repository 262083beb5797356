"""Every character of a text is in exactly one segment or omission, whatever the text."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech import ssml
from anyrig.speech.lexicon import Entry, Lexicon
from anyrig.speech.prepare import prepare
from anyrig.speech.script import Script, check
from tests.conftest import ROOT

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
        Entry("cat", say="feline"), Entry("the cat sat", ipa="kæt"), Entry("Dr.", say="Doc"),
        Entry(pattern=r"(\d)\d", say=r"\1 and so on"), Entry("50", say="many"),
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
        script = prepare(text, **wishes)  # type: ignore[arg-type]  # hypothesis gives plain values
    except UnspeakableTextError:
        return None
    check(script)
    for segment in script.segments:
        assert segment.line.text.strip()
        assert any(map(str.isalnum, segment.line.text))
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
        text, limit=limit, phonemes=phonemes, first_short=first_short, language=language,
        lexicon=_LEXICON, ssml=False,
    )  # fmt: skip
    for segment in script.segments if script else ():
        words = segment.line.text
        assert len(words) <= limit or "[[" in words
        if not phonemes:
            assert "[[" not in words


@settings(deadline=None)
@given(_SSML, st.sampled_from([20, 400]), st.booleans())
def test_any_ssml(text: str, limit: int, phonemes: bool) -> None:
    script = _told(text, limit=limit, phonemes=phonemes, language="en", languages=["en", "es"])
    for segment in script.segments if script else ():
        assert "<break" not in segment.line.text


@settings(deadline=None)
@given(st.text("<>/&;!-[]\"'= speakbr\n\x00é", max_size=60))
def test_broken_ssml_is_refused_with_its_place(text: str) -> None:
    try:
        flow = ssml.read(f"<speak>{text}</speak>")
    except InvalidInputError as error:
        assert re.search("line 1|line [0-9]+, column [0-9]+|document type", error.message)  # noqa: PT017 - it may as well be whole
    else:
        assert len(flow.text) <= len(text)


@settings(max_examples=30, deadline=None)
@given(_PIECES)
def test_the_language_is_found_without_harm(text: str) -> None:
    _told(text)


@pytest.mark.parametrize("limit", [60, 200, 400])
def test_a_book(limit: int) -> None:
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    script = _told(text, limit=limit, first_short=True, languages=("en",))
    assert script is not None
    assert max(len(segment.line.text) for segment in script.segments) <= limit
    assert {omission.kind for omission in script.omissions} == {"space", "symbol"}
    assert script.languages == ("en",)
    spoken = sum(end - start for segment in script.segments for start, end in segment.spans)
    assert spoken > 0.95 * len(text)
