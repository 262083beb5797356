"""Text layers that are of no use are told from text, whatever its language."""

from __future__ import annotations

import codecs

import pytest

from anyrig.text.garbage import fault, readable

TEXTS = {
    "en": "It was the best of times, it was the worst of times, it was the age of wisdom, it was"
    " the age of foolishness, it was the epoch of belief",
    "es": "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que"
    " vivía un hidalgo de los de lanza en astillero",
    "fr": "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte, mes"
    " yeux se fermaient si vite que je n’avais pas le temps",
    "pl": "Litwo! Ojczyzno moja! ty jesteś jak zdrowie. Ile cię trzeba cenić, ten tylko się dowie,"
    " kto cię stracił. Dziś piękność twą w całej ozdobie widzę",
    "fi": "Mieleni minun tekevi, aivoni ajattelevi lähteäni laulamahan, saa'ani sanelemahan,"
    " sukuvirttä suoltamahan, lajivirttä laulamahan",
    "tr": "Korkma, sönmez bu şafaklarda yüzen al sancak; sönmeden yurdumun üstünde tüten en son"
    " ocak. O benim milletimin yıldızıdır, parlayacak",
    "vi": "Trăm năm trong cõi người ta, chữ tài chữ mệnh khéo là ghét nhau. Trải qua một cuộc bể"
    " dâu, những điều trông thấy mà đau đớn lòng",
    "cy": "Mae hen wlad fy nhadau yn annwyl i mi, gwlad beirdd a chantorion, enwogion o fri; ei"
    " gwrol ryfelwyr, gwladgarwyr tra mad, tros ryddid gollasant eu gwaed",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены"
    " разумом и совестью",
    "ja": "すべての人間は、生まれながらにして自由であり" * 4,
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق وقد وهبوا عقلا وضميرا وعليهم",
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
    assert fault(TEXTS[name]) == ""
    assert readable(TEXTS[name])


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_none(name: str) -> None:
    assert fault(GARBAGE[name])


def test_letters_that_the_file_does_not_name_count() -> None:
    assert fault(TEXTS["en"], num_unknown=5) == ""
    assert "which letters" in fault(TEXTS["en"], num_unknown=60)


def test_what_nobody_can_read_is_not_worth_keeping() -> None:
    assert not readable(GARBAGE["private use"])
    assert not readable(GARBAGE["numbered glyphs"])
    assert not readable("")
    assert readable(GARBAGE["letters moved"])
