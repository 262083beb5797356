"""Encodings, languages, sentences, and text that is none."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.errors import InvalidInputError
from anyrig.text.decode import decode
from anyrig.text.files import read
from anyrig.text.garbage import find_fault, is_readable
from anyrig.text.labels import cell, one_line
from anyrig.text.language import _NOISE, detect, detect_document
from anyrig.text.tokens import split_paragraphs, split_text
from tests.conftest import ROOT

_FRENCH = (
    "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte, mes yeux se "
    "fermaient si vite que je n'avais pas le temps de me dire : « Je m'endors. »"
)
_SPANISH = (
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que vivía un "
    "hidalgo de los de lanza en astillero, adarga antigua, rocín flaco y galgo corredor."
)


ENOUGH = [
    (_FRENCH, "fr"), (_SPANISH, "es"),
    ("It was the best of times, it was the worst of times.", "en"),
    ("Merci beaucoup.", "fr"), ("Hay tres cuartos de litro a veinte grados.", "es"),
    ("Das ist gut.", "de"), ("Una bella giornata a Roma.", "it"), ("Olá, como vai você?", "pt"),
    ("Привет мир", "ru"), ("你好", "zh"), ("こんにちは", "ja"), ("He said it to me", "en"),
]  # fmt: skip


def test_enough_to_tell(subtests: pytest.Subtests) -> None:
    for text, language in ENOUGH:
        with subtests.test(text=text, language=language):
            found = detect(text)
            assert (found.language, found.sure) == (language, True)
            assert found.reason


_GERMAN = (
    "Der Vertrag wurde am 3. Oktober in der Stadthalle unterschrieben, und die Arbeiten am neuen "
    "Hafen haben noch in derselben Woche begonnen."
)
_NOTICE = "We use cookies to improve your experience and to show you the content that you like."


def _page(language: str, *paragraphs: str) -> bytes:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f'<html lang="{language}"><body>{body}</body></html>'.encode()


@pytest.mark.parametrize(
    ("page", "language", "least"),
    [
        (_page("en", _GERMAN, _GERMAN, _GERMAN), "de", 0.99),
        (_page("en", _NOTICE, *[_SPANISH] * 4), "es", 0.75),
        (_page("", _NOTICE, _SPANISH, _NOTICE, *[_SPANISH] * 2, _NOTICE), "es", 0.6),
        (_page("en-GB", _NOTICE), "en-gb", 0.9),
        (_page("es", "Hm."), "es", 0.6),
        (_page("", "Hm."), "en", 0.0),
    ],
)
def test_a_file_is_in_the_language_of_its_text(
    tmp_path: Path, page: bytes, language: str, least: float
) -> None:
    (tmp_path / "a.html").write_bytes(page)
    found = detect_document(read(tmp_path / "a.html"))
    assert found.language == language
    assert least <= found.confidence <= max(least + 0.35, 0.0)
    assert found.sure == (least > 0)


def test_the_share_of_a_mixed_text_is_what_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(_page("en", _NOTICE, _SPANISH, _SPANISH))
    found = detect_document(read(tmp_path / "a.html"))
    assert found.language == "es"
    assert 0.6 < found.confidence < 0.9


TOO_LITTLE = [
    "", "OK", "12345", "Maria Garcia", "Hello world", "CHAPTER IV", "\ud800", "Die hard",
    "New York, Los Angeles, San Francisco, San Diego", "https://example.com/le/chat/est",
    "Turn left at Rue de la Paix.", "ten point zero zero zero", "apples, pears, et cetera.",
]  # fmt: skip


def test_too_little_to_tell_is_the_default(subtests: pytest.Subtests) -> None:
    for text in TOO_LITTLE:
        for default in ["en", "es"]:
            with subtests.test(text=text, default=default):
                found = detect(text, default=default)
                assert (found.language, found.sure) == (default, False)


def test_only_the_languages_allowed() -> None:
    assert detect(_FRENCH, ["en", "es", "fr"]).language == "fr"
    assert detect(_FRENCH, ["en", "ko"], default="ko").language in ("en", "ko")


def test_a_foreign_preface_does_not_decide() -> None:
    preface = "This is the preface of the book, and it is not in the language of the rest. " * 12
    assert detect(preface + f"\n\n{_FRENCH}" * 30).language == "fr"


def test_no_paragraph_of_an_english_book_is_foreign() -> None:
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    assert {detect(text[a:b]).language for a, b in split_paragraphs(text)} == {"en"}
    # not even when another language is the default: what is long enough speaks for itself
    spans = [span for span in split_paragraphs(text) if span[1] - span[0] > 150]
    assert {detect(text[a:b], default="fr").language for a, b in spans} == {"en"}


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=100))
def test_any_text_has_an_answer(text: str) -> None:
    found = detect(text)
    assert found.language
    assert 0.0 <= found.confidence <= 1.001


@pytest.mark.parametrize("run", ["a@", "[[", "www"])
def test_noise_is_taken_out_of_a_long_run_without_end(run: str) -> None:
    # Looked for from every letter, an address in a run of this length takes minutes.
    assert _NOISE.sub("", run * 300_000 + " joe@example.org the rest").endswith(" the rest")


def test_addresses_do_not_speak_for_a_language() -> None:
    text = "Voici le texte de la lettre que nous avons reçue hier."
    noisy = f"{text} <the.of.and@was.this.that> www.the-and-of.com mailto:the@and.of, {text}"
    assert detect(noisy).language == "fr"


WORDS = "Élise paid 3 € for the “naïve” café, señor. " * 8


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "iso8859_15"]
)
def test_text_is_read_in_the_encodings_people_have(encoding: str) -> None:
    words = WORDS.replace("“", '"').replace("”", '"') if "8859" in encoding else WORDS
    read = decode(words.encode(encoding), "a.txt")
    assert read.split()[:3] == words.split()[:3]
    assert len(read) == len(words)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04rest", "zip archive"),
        (b"%PDF-1.7", "PDF"),
        (bytes(range(256)) * 8, "text"),
        (b"\xff\xfea", "damaged"),
    ],
)
def test_what_is_no_text_is_refused_in_words(data: bytes, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        decode(data, "a.bin")
    assert caught.value.hint


def test_a_few_damaged_bytes_do_not_cost_the_text() -> None:
    whole = "“Où est-elle?” – “Là-bas, près du café.” " * 100
    data = whole.encode()
    broken = data[:2000] + b"\xff\xfe\x81" + data[2000:]
    assert decode(broken, "a file").replace("\ufffd", "") == whole
    old = ("The café was closed. " + "It rained and rained. " * 400).encode("latin-1")
    assert "café" in decode(old, "a file")


def test_an_accent_far_behind_is_read_like_one_in_front() -> None:
    text = "It was a dark night, and nobody came to the door of the house. " * 5000
    text += "She sat in the café and waited for the others. " * 50
    assert decode(text.encode("cp1252"), "a.txt") == text


def test_a_text_cut_within_its_last_letter_is_read() -> None:
    text = "It was a dark night, and nobody came. " * 6000
    assert decode(text.encode() + b"\xe2\x82", "a.txt").startswith(text)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Françoise ate crème brûlée with Zoë. " + "It rained all day. " * 300, "latin-1"),
        ("“Où est-elle?” – “Là-bas, près de l’église.”", "cp1252"),
        ("Zażółć gęślą jaźń. Był sobie król, który miał trzech synów i jedną córkę.", "cp1250"),
        ("Жил-был старик со старухой, и была у них курочка ряба.", "cp1251"),
    ],
)
def test_old_encodings_are_told_apart(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), "a file") == text


TEXTS = {
    "en": "It was the best of times, it was the worst of times, it was the age of wisdom, it was"
    " the age of foolishness, it was the epoch of belief",
    "es": _SPANISH,
    "fr": _FRENCH,
    "fi": "Mieleni minun tekevi, aivoni ajattelevi lähteäni laulamahan, saa'ani sanelemahan,"
    " sukuvirttä suoltamahan, lajivirttä laulamahan",
    "vi": "Trăm năm trong cõi người ta, chữ tài chữ mệnh khéo là ghét nhau. Trải qua một cuộc bể"
    " dâu, những điều trông thấy mà đau đớn lòng",
    "cy": "Mae hen wlad fy nhadau yn annwyl i mi, gwlad beirdd a chantorion, enwogion o fri; ei"
    " gwrol ryfelwyr, gwladgarwyr tra mad, tros ryddid gollasant eu gwaed",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены"
    " разумом и совестью",
    "ja": "すべての人間は、生まれながらにして自由であり" * 4,
    "code": "def main():\n    for line in sys.stdin:\n        serve(json.loads(line), out)\n",
    "an invoice": "Invoice No. 2231-XK\nQty Item Price\n1 ABC-123 12.00\n2 KLM-998 XPTO 77.10\n"
    "VAT 19% 14.00 IBAN DE89370400440532013000 BIC COBADEFFXXX",
    "numbers": "12.5 13.7 99.1 2024-01-02\n" * 30,
    "capitals": "CONTRATO DE ARRENDAMIENTO ENTRE LAS PARTES QUE SUSCRIBEN EL PRESENTE DOCUMENTO",
    "a line": "§ 7",
}
_EN, _RU = TEXTS["en"] * 3, TEXTS["ru"]
GARBAGE = {
    "glyph numbers off by 29": "".join(chr(ord(c) - 29) if c > "=" else c for c in _EN),
    "letters moved": codecs.encode(_EN, "rot13"),
    "private use": "".join(chr(0xE000 + ord(c)) for c in _EN),
    "replaced": _EN.replace("e", "\ufffd").replace("t", "\ufffd"),
    "numbered glyphs": "".join(f"(cid:{ord(c)})" for c in _EN),
    "UTF-8 as Windows-1252": (TEXTS["es"] + " ¿qué pasó aquí? ñandú, cañón, él")
    .encode()
    .decode("cp1252", "replace"),
    "cp1251 as Latin-1": _RU.encode("cp1251").decode("latin-1"),
    "UTF-8 as Latin-1": TEXTS["ja"].encode().decode("latin-1"),
    "apart": " ".join(_EN),
    "signs alone": "....... ---- *** ...",
    "controls": "".join(chr(ord(c) % 8 + 1) for c in _EN),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_text(name: str) -> None:
    assert find_fault(TEXTS[name]) == ""
    assert is_readable(TEXTS[name])


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_none(name: str) -> None:
    assert find_fault(GARBAGE[name])


@pytest.mark.parametrize(
    "text", ["=cmd()", "@sum(1)", "\t=1", "+cmd|' /C calc'!A0", "-2+3+cmd|x", "-SUM(A1)", "\r=1"]
)
def test_a_formula_is_a_text_in_a_table(text: str) -> None:
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["+33 (0)1 42 68", "-€40", "-12.5", "a=b", "", "- a dash"])
def test_what_is_no_formula_stays_as_it_is(text: str) -> None:
    assert cell(text) == text


def test_a_name_is_one_line_without_codes() -> None:
    assert one_line("a\nb\x1b[2J\u202ec") == "a b [2Jc"


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
        "The U.S. Army came.| I live in the U.S.| She does not.",
        '"Is it?" he said.| "No!" she cried.| Then...',
        "He waited ... and then left.| Wait… what?| No.",
        "Visit Example.com.| Then go to http://a.b/c.| Now.",
        "St. Mary's on Main St.| He went.",
        "(He left.)| She stayed.[1]| Fine.",
        "e.g. this, i.e. that.| No. 5 is alive.| No.| He said no.",
        "Fig. 3 shows vol. 2, pp. 3-5.| Mr. and Mrs. X vs. Y et al. went.",
        "Plan B.| He went.| Vitamin C.| It is.",
        "approx. 5 ft. tall.| Jan. 5, Feb. 6.| It was in Jan.| He left.",
        "Yahoo! is a company.| Version 2.0. is out.| 3.14 is pi.",
        "1. First item.| 2. Second item.",
        'He said: "I left.| She stayed."| Then he went.',
        'He said "Stop." and left.| “Why?” asked Tom.| (See p. 5.)| Good.',
        "“What’s that?”| “It’s mine.”",
        "See Vol. II and Fig. IV of it.| No.| I went on Mon. 5 May.| Oh no :-(",
        "Come with me.| Alice fell ill.| The art.| Tom sat.| The sun.| It shone.",
        "First paragraph\n\n|Second one\n \n|third",
    ],
    "es": [
        "El Sr. García llegó a las 5 p. m. y se fue.| La Sra. López no.| EE. UU. es grande.",
        "Vive en EE. UU.| Él no.| Miró al mar.| Ella no.",
        "¿Qué?| ¡No!| Dijo... y calló.| Véase pág. 3.",
    ],
    "fr": [
        "M. Dupont est là.| Mme. Curie aussi.| « Quoi ? » dit-il.",
        "Le Dr. Martin, cf. p. 3, est venu... puis parti.| N° 5.",
        "Le 8 févr. 2019 et lun. 3 janv.| Il est venu.",
        "Selon l'art. 3.1, non.| Il est là.",
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
            found = [text[start:end] for start, end in split_text(text, language)]
            assert found == [piece.strip() for piece in written.split("|")]


@settings(deadline=None)
@given(_ANY | _PIECES, st.sampled_from(["en", "es", "fr", "de", "it", "ja", "zz", "pt-BR"]))
def test_nothing_is_lost(text: str, language: str) -> None:
    position = 0
    for start, end in [*split_text(text, language), (len(text), len(text))]:
        assert not text[position:start].strip()
        assert start == len(text) or text[start:end].strip() == text[start:end] != ""
        position = end
