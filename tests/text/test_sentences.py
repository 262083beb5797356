"""Sentences: cut where a reader would, and not a character lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.text.sentences import paragraphs, sentences
from tests.conftest import ROOT

_ANY = st.text(st.characters(exclude_categories=()), max_size=200)
_PIECES = st.lists(
    st.sampled_from(
        ["Dr. ", "p.m. ", "He", " left", ". ", "... ", "? ", "\n", "\n\n", '"', "”", "«", "(", ")",
         "[1]", "3.5", "1. ", "M. ", "etc. ", "http://a.b/c. ", "no. ", "。", "\ud800", "\x00", "É"]
    ),
    max_size=30,
).map("".join)  # fmt: skip

# Sentences are divided by | here.
_CASES: dict[str, list[str]] = {
    "en": [
        "Dr. Lee came.| He left at 5 p.m.| She stayed.",
        "J. R. R. Tolkien wrote it.| I read it.",
        "The U.S. Army came.| I live in the U.S.| She does not.",
        '"Is it?" he said.| "No!" she cried.| Then...',
        "He waited ... and then left.| Wait… what?| No.",
        "Wait...| Then he left...| He died.",
        "See www.a.com/x.y?z=1.| Then 3.5 more.",
        "Visit Example.com.| Then go to http://a.b/c.| Now.",
        "St. Mary's on Main St.| He went.",
        "One.Two is a name.| Yes.",
        "(He left.)| She stayed.[1]| Fine.",
        "e.g. this, i.e. that.| No. 5 is alive.| No.| He said no.",
        "Fig. 3 shows vol. 2, pp. 3-5.| Mr. and Mrs. X vs. Y et al. went.",
        "Plan B.| He went.| Vitamin C.| It is.",
        "He has a Ph.D.| She too.| Prof. X and Capt. Y met Lt. Z.",
        "approx. 5 ft. tall.| Jan. 5, Feb. 6.| It was in Jan.| He left.",
        "No. 5 vs. No. 6.| Yes!| No?| Well.",
        "Yahoo! is a company.| Version 2.0. is out.| 3.14 is pi.",
        "1. First item.| 2. Second item.",
        "Hello!!!| What?!| Yes... no.",
        'He said: "I left.| She stayed."| Then he went.',
        'He said "Stop." and left.| “Why?” asked Tom.| (See p. 5.)| Good.',
        "“What’s that?”| “It’s mine.”",
        "hello there.| how are you?| fine.",
        "See Vol. II and Fig. IV of it.| No.| I went on Mon. 5 May.| Oh no :-(",
        "Come with me.| Alice fell ill.| The art.| Tom sat.| The sun.| It shone.",
        "It weighs 3 lbs. of beef.| The temp. dropped on Tues. and Thurs.| See Bldg. 7, Apt. 4B.",
        "he left there.| she stayed at the dept. of it.",
        "First paragraph\n\n|Second one\n \n|third",
    ],
    "es": [
        "El Sr. García llegó a las 5 p. m. y se fue.| La Sra. López no.| EE. UU. es grande.",
        "un 1er. lugar en la Hab. 204.| Es así.",
        "Vive en EE. UU.| Él no.| Miró al mar.| Ella no.",
        "¿Qué?| ¡No!| Dijo... y calló.| Véase pág. 3.",
        "Fue a las 5 p. m.| Ella no.| Ud. sabe.",
    ],
    "fr": [
        "M. Dupont est là.| Mme. Curie aussi.| « Quoi ? » dit-il.",
        "Le Dr. Martin, cf. p. 3, est venu... puis parti.| N° 5.",
        "J.-P. Sartre etc.| Voilà !",
        "Le 8 févr. 2019 et lun. 3 janv.| Il est venu.",
        "Selon l'art. 3.1, non.| Il est là.",
        "C'est à p. 5.| Il est parti.",
    ],
    "de": ["Am 3. Mai kam Dr. Müller.| Das ist z. B. gut.| Er ging.| Der 2. Weltkrieg."],
    "it": ["Il Sig. Rossi è qui.| La dott.ssa Bianchi no."],
    "ja": ["これは。|それは！"],
    "hi": ["यह है।| वह है।"],
    "xx": ["Hello.| World there."],
}


def test_hard_cases(subtests: pytest.Subtests) -> None:
    for language, written in [(name, case) for name, cases in _CASES.items() for case in cases]:
        with subtests.test(language=language, written=written):
            text = written.replace("|", "")
            found = [text[start:end] for start, end in sentences(text, language)]
            assert found == [piece.strip() for piece in written.split("|")]


@settings(deadline=None)
@given(_ANY | _PIECES, st.sampled_from(["en", "es", "fr", "de", "it", "ja", "zz", "pt-BR"]))
def test_nothing_is_lost(text: str, language: str) -> None:
    position = 0
    for start, end in [*sentences(text, language), (len(text), len(text))]:
        assert not text[position:start].strip()
        assert start == len(text) or text[start:end].strip() == text[start:end] != ""
        position = end


def test_a_book() -> None:
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    found = [text[start:end] for start, end in sentences(text)]
    assert "Down, down, down." in found
    assert sum(map(len, found)) > 0.97 * len(text)
    assert max(map(len, found)) < 1000


def test_paragraphs() -> None:
    text = "\n\n a\nb \r\n\r\nc\u2029d\r\re  "
    assert [text[start:end] for start, end in paragraphs(text)] == ["a\nb", "c", "d", "e"]
