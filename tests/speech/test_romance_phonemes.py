"""Spanish, French, Italian and Portuguese as Kokoro's voices are given them, without espeak-ng."""

from __future__ import annotations

import hashlib
import lzma
import struct
from pathlib import Path

import pytest

from anyrig.errors import MissingWeightsError
from anyrig.speech.engines import installed
from anyrig.speech.phonemes import PhonemeReader, french_words
from anyrig.speech.phonemes.readers import can_read, open_reader
from anyrig.storage import derived
from benchmarks.pronunciation_voices import read_sentences

# As in the package: French Wiktionary's IPA.
FRENCH = """
les le|enfants ɑ̃fɑ̃|un œ̃|ami ami|amis ami|ont ɔ̃|il il|ils il|elle ɛl|nous nu|
vous vu|avons avɔ̃|avez ave|homme ɔm|arbre aʁbʁ|arbres aʁbʁ|grand ɡʁɑ̃|petit pəti|
petits pəti|haricots aʁiko|héros eʁo|heures œʁ|heure œʁ|livres livʁ|ans ɑ̃|en ɑ̃|
avion avjɔ̃|chez ʃe|eux ø|très tʁɛ|utile ytil|dans dɑ̃|une yn|deux dø|trois tʁwa|quatre katʁ|
six sis|dix dis|neuf nœf|huit ɥit|vingt vɛ̃|est ɛst|allé ale|on ɔ̃|aime ɛm|mon mɔ̃|
bon bɔ̃|premier pʁəmje|étage etaʒ|pas pa|encore ɑ̃kɔʁ|quand kɑ̃|arrive aʁiv|dit di|
sont sɔ̃|et e|soldat sɔlda|anglais ɑ̃ɡlɛ|la la|le lə|eau o|école ekɔl|je ʒə|ai e|
à aaksɑ̃|onze ɔ̃z|tous tu|jours ʒuʁ|plus ply|âgé ɑʒe|quel kɛl|âge ɑʒ|minuit minɥi|
Ce sɑ̃tjɛm|ce sə|chat ʃa|Jean ʒɑ̃|jean dʒin|parle paʁl|vieux vjø|ici isi|prends pʁɑ̃|
sous su|table tabl|trop tʁo|aimable ɛmabl|tout tu|coup ku
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a French dictionary of a few words, written as g2p2 writes its own."""
    path = tmp_path / french_words.FILE
    write_dictionary(path)
    monkeypatch.setattr(french_words, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return tmp_path


def write_dictionary(path: Path) -> None:
    words = [word for entry in FRENCH.split("|") for word in entry.split()]
    data = b"G2P2\x06\0\0\0"
    data += struct.pack("<I", 1) + _string("ch") + _string("ʃ")  # a token
    data += struct.pack("<I", 1) + b"\x02\xc8\x01\x05" + struct.pack("<h", -500)  # of two ids
    data += struct.pack("<If", 0, -9.0)
    data += struct.pack("<I", len(words) // 2) + b"".join(map(_string, words))
    path.write_bytes(lzma.compress(data))


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<H", len(data)) + data


def say(reader: PhonemeReader, text: str) -> str:
    return "".join(word.phonemes + " " * word.space for word in reader.read(text)).strip()


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("El camión subió.", "el kamjˈon suβjˈo."),  # stress by mark
        ("reloj, árbol, mesa, virtud, canciones", "relˈox, ˈaɾβol, mˈesa, biɾtˈud, kanθjˈones"),
        ("país, caída, baúl, poeta", "paˈis, kaˈiða, baˈul, poˈeta"),  # hiatus
        ("aire, reina, causa, hay, muy", "ˈIɾe, rˈAna, kˈWsa, ˈI, mˈuj"),
        ("cigüeña, guerra, pingüino, agua", "θiɣwˈeɲa, ɡˈera, piŋɡwˈino, ˈaɣwa"),
        ("México y Oaxaca", "mˈexiko i ˌoaxˈaka"),
        ("examen, xilófono, texto", "eksˈamen, silˈofono, tˈeksto"),
        ("carro, caro, honra, alrededor", "kˈaro, kˈaɾo, ˈonra, ˌalreðeðˈoɾ"),
        ("un vaso, un gato, envío", "ˈum bˈaso, ˈuŋ ɡˈato, embˈio"),
        ("dedo, lobo, amigo, bomba, andar", "dˈeðo, lˈoβo, amˈiɣo, bˈomba, andˈaɾ"),
        ("la verdad es", "la βeɾðˈað ˈes"),
        ("fácilmente", "fˈaθilmˈente"),
        ("hueso, hielo, deshonra, huir", "wˈeso, jˈelo, desˈonra, wˈiɾ"),
        ("Vete [[tʃao]] ya.", "bˈete ʧao ʝˈa."),
        ("Tiene 21 años.", "tjˈene βAntjˈuno ˈaɲos."),
    ],
)
def test_spanish(text: str, spoken: str) -> None:
    assert say(open_reader("es", None), text) == spoken


@pytest.mark.parametrize(
    ("language", "spoken"),
    [
        ("es", "θjˈen ʎˈaβes ðe θapˈato"),
        ("es-ES", "θjˈen ʎˈaβes ðe θapˈato"),
        ("es-MX", "sjˈen ʝˈaβes ðe sapˈato"),
        ("es_419", "sjˈen ʝˈaβes ðe sapˈato"),
    ],
)
def test_spanish_of_a_region(language: str, spoken: str) -> None:
    assert say(open_reader(language, None), "cien llaves de zapato") == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("La città è bella.", "la ʧitːˈa e bˈɛlla."),
        ("tavolo, telefono, subito", "tˈavolo, telˈɛfono, sˈubito"),
        ("parlano, abitano, parlavano, andarono", "pˈarlano, ˈabitano, parlˈavano, andˈarono"),
        ("muoversi, vedersi", "mwˈɔversɪ, vedˈersɪ"),
        ("l'amico dell'uomo", "lamˈiko dellwˈɔmo"),  # elision
        ("un'ora, dov'è, c'era", "ʊnˈora, dovˈɛ, ʧˈɛra"),
        ("famiglia, gli gnocchi, ogni", "famˈiʎa, ʎɪ ɲˈɔkːɪ, ˈoɲɲɪ"),
        ("scena, scuola, lasciare, pesche", "ʃˈena, skwˈɔla, laʃˈare, pˈeske"),
        ("cena, casa, ciao, chiesa, ghiro", "ʧˈena, kˈaza, ʧˈao, kjˈɛza, ɡˈiro"),
        ("farmacia, geografia, storia, zio", "farmaʧˈia, ʤeoɡrafˈia, stˈɔrja, ʣˈio"),
        ("mezzo, pizza, grazie", "mˈɛʣːo, pˈiʦːa, ɡrˈaʦje"),
        ("perché, virtù, vorrei, dottor", "perkˈe, virtˈu, vorɾˈɛi, dotːˈor"),
        ("Sono le 12 e 30.", "sˌono le dˈodiʧɪ e trˈenta."),
        ("la TV, il 3,5 %", "la tˌivˈu, il trˈe vˈirɡola ʧˈinkwe per ʧˈɛnto"),
    ],
)
def test_italian(text: str, spoken: str) -> None:
    assert say(open_reader("it", None), text) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Não sei.", "nˌɐ̃ʊ̃ sˈA."),
        ("irmã, pães, limões, também", "iɾəmˈɐ̃, pˈɐ̃ys, limˈõjs, tɐ̃mbˈAŋ"),
        ("dia, tia, noite, cidade", "ʤˈiæ, ʧˈiæ, nˈoɪʧy, sˌidˈaʤy"),
        ("filho, banho, chuva", "fˈiljʊ, bˈɐ̃ɲʊ, ʃˈuvæ"),
        ("táxi, exame, próximo, caixa, xícara", "tˈaksi, ˌezˈɐ̃my, prˈɔsimʊ, kˈIʃæ, ʃˈikæɾæ"),
        ("carro, rato, caro, mar, porta", "kˈaxʊ, xˈatʊ, kˈaɾʊ, mˈar, pˈɔɾətæ"),
        ("as casas azuis", "as kˈazæz azˈuɪs"),
        ("Brasil, papel, alto", "brazˈiʊ, papˈɛʊ, ˈWtʊ"),
        ("saúde, juiz, rainha, família", "sˌaˈuʤy, ʒuˈis, xˌaˈiɲæ, fˌæmˈiljæ"),
        ("muito bom", "mwˈiŋtʊ bˈoŋ"),
        ("água, quente, cinquenta, guerra", "ˈaɡwæ, kˈAŋʧy, sˌiŋkwˈAŋtæ, ɡˈɛxæ"),
        ("Em 2024.", "ˌAŋ dˈoɪz mˈiʊ i vˈiŋʧj i kwˈatrʊ."),
    ],
)  # fmt: skip
def test_portuguese(text: str, spoken: str) -> None:
    assert say(open_reader("pt-BR", None), text) == spoken.replace("õ", "o\u0303")


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("les enfants", "lez ɑ̃fˈɑ̃"),
        ("un ami", "œ̃n amˈi"),
        ("un grand arbre", "œ̃ ɡʁˈɑ̃t ˈaʁbʁ"),
        ("deux heures", "dˈøz ˈœʁ"),
        ("Ils ont un livre", "ilz ɔ̃t œ̃ lˈivʁ"),
        ("nous avons, vous avez", "nuz avˈɔ̃, vuz avˈe"),
        ("en avion", "ɑ̃n avjˈɔ̃"),
        ("chez eux", "ʃez ˈø"),
        ("très utile", "tʁɛz ytˈil"),
        ("Il est allé", "il ɛt alˈe"),
        ("On aime mon école", "ɔ̃n ˈɛm mɔ̃n ekˈɔl"),
        ("un bon ami", "œ̃ bˈɔn amˈi"),  # without its nasal vowel
        ("le premier étage", "lə pʁəmjˈeʁ etˈaʒ"),
        ("quand il arrive", "kɑ̃t il aʁˈiv"),
        ("dit-il, prends-en", "dˈitil, pʁˈɑ̃zɑ̃"),
        ("les haricots, les héros, les onze", "le aʁikˈo, le eʁˈo, le ˈɔ̃z"),  # none before these
        ("et un ami et elle", "e œ̃n amˈi e ɛl"),
        ("un soldat anglais", "œ̃ sɔldˈa ɑ̃ɡlˈɛ"),
        ("six ans, six livres, j'ai dix", "sˈiz ˈɑ̃, sˈi lˈivʁ, ʒe dˈis"),
        ("vingt-deux, vingt ans", "vˈɛ̃tdˈø, vˈɛ̃t ˈɑ̃"),
        ("quatre-vingt-deux, dix-huit", "kˈatʁvˈɛ̃dˈø, dˈizyˈit"),
        ("neuf heures, neuf livres", "nˈœv ˈœʁ, nˈœf lˈivʁ"),
        ("huit heures, huit livres", "yˈit ˈœʁ, yˈi lˈivʁ"),
        ("tous les jours, tous", "tˈu le ʒˈuʁ, tˈus"),
        ("l'homme et l'eau", "lˈɔm e lˈo"),  # elision
        ("j'ai, d'une, qu'elle, jusqu'à", "ʒˈe, dˈyn, kˈɛl, ʒyskˈa"),
        ("aujourd'hui", "oʒuʁdyˈi"),
        ("Ce chat parle.", "sə ʃˈa pˈaʁl."),
        ("Jean arrive à minuit.", "ʒˈɑ̃ aʁˈiv a minyˈi."),
        ("Zlatimourie", "zlatimuʁˈi"),  # by its spelling
    ],
)
def test_french(folder: Path, text: str, spoken: str) -> None:
    assert say(open_reader("fr-CA", folder), text) == spoken


def test_what_can_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = folder / "voices"
    monkeypatch.setattr("anyrig.speech.phonemes.readers.has_espeak", lambda: False)
    monkeypatch.setattr(french_words, "PACKAGE", "no-such-package")
    assert all(can_read(language, empty) for language in ("es", "it", "pt"))
    assert can_read("fr", folder)
    assert not can_read("fr", empty)
    assert not can_read("ja", folder)


def test_the_dictionary_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / french_words.FILE
    monkeypatch.setattr(derived, "_folder", folder / "derived")
    first = french_words.FrenchWords(path)
    monkeypatch.setattr(lzma, "decompress", None)
    again = french_words.FrenchWords(path)
    assert again.find("enfants") == first.find("enfants") == "ɑ̃fɑ̃"
    assert again.find("enfant") == again.find("zzz") == again.find("") == ""


def test_another_dictionary_is_refused(tmp_path: Path) -> None:
    write_dictionary(tmp_path / french_words.FILE)
    with pytest.raises(MissingWeightsError, match="not the published dictionary"):
        open_reader("fr", tmp_path)


@pytest.mark.parametrize("language", ["es", "fr", "it", "pt"])
def test_every_sign_is_one_that_kokoro_knows(folder: Path, language: str) -> None:
    vocabulary = installed.read_table("hibari", "assets/vocab.json")
    reader = open_reader(language, folder)
    text = " ".join(read_sentences(language)) + " «Öł» – ß, İ'x 12.345,6 7:05 50 % Ñandú-y"
    words = reader.read(text)
    assert not {sign for word in words for sign in word.phonemes} - set(vocabulary)
    assert all(word.phonemes for word in words if word.text.isalpha() and len(word.text) > 2)


@pytest.mark.skipif(french_words.find_file() is None, reason="g2p2-group-romance is not installed")
def test_the_dictionary_of_the_package() -> None:
    reader = open_reader("fr", None)
    assert say(reader, "Les enfants étaient à Marseille.") == "lez ɑ̃fˈɑ̃ etˈɛ a maʁsˈɛj."
