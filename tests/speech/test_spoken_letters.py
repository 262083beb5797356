"""Letters that are said by their names, from written text to the phonemes of the default voice."""

from __future__ import annotations

import pytest

from anyrig.devices.discovery import discover
from anyrig.speech.engines.hibari import Hibari
from anyrig.speech.phonemes.english import EnglishReader
from anyrig.speech.prepare import SpeechOptions, prepare


@pytest.fixture(scope="module")
def reader() -> EnglishReader:
    return EnglishReader(discover().cpu_device)


SENTENCES = [
    ("It is 9 a.m. now.", "ˌɪt ɪz nˈIn ˌAˈɛm nˈW."),
    ("We met at 5 p.m.", "wˌi mˈɛt æt fˈIv pˌiˈɛm."),
    ("We met at 5 p.m. Susan drove.", "wˌi mˈɛt æt fˈIv pˌiˈɛm. sˈuzən dɹˈOv."),
    ("It is 7 a.m. Monday.", "ˌɪt ɪz sˈɛvən ˌAˈɛm mˈʌndˌA."),
    ("The CIA met.", "ðə sˌiˌIˈA mˈɛt."),
    ("The C.I.A. met.", "ðə sˌiˌIˈA mˈɛt."),
    ("She was born in the U.S.", "ʃˌi wʌz bˈɔɹn ɪn ðə jˌuˈɛs."),
    ("A BBC van.", "ɐ bˌibˌisˈi vˈæn."),
    ("The CEO's car.", "ðə sˌiˌiˈOz kˈɑɹ."),
    ("Two DVDs fell.", "tˈu dˌivˌidˈiz fˈɛl."),
    ("He got an A.", "hˌi ɡɑt ɐn ˈA."),
    ("Take vitamin C.", "tˈAk vˈITəmən sˈi."),
    ("Plan A failed.", "plˈæn ˈA fˈAld."),
    ("It was I. You know.", "ˌɪt wʌz ˈI. jˌu nˈO."),
    ("A4 paper.", "ˈA fˈɔɹ pˈApəɹ."),
    ("My PhD is in AI.", "mˌI pˌiˌAʧdˈi ɪz ɪn ˌAˈI."),
    ("AT&T pays.", "ˌAtˈi ænd tˈi pˈAz."),
    ("He met Malcolm X.", "hˌi mˈɛt mˈælkəm ˈɛks."),
    ("I saw Mr. B. It was late.", "ˌI sˈɔ mˈɪstəɹ bˈi. ˌɪt wʌz lˈAt."),
    ("A is for apple.", "ˈA ɪz fɔɹ ˈæpᵊl."),
    ("J. R. R. Tolkien wrote it.", "ʤˌAˌɑɹˈɑɹ tˈɔlkiən ɹˈOt ɪt."),
    ("<speak><say-as interpret-as='characters'>CIA</say-as> it is.</speak>", "sˌiˌIˈA ɪt ɪz."),
]


def test_letters_are_said_by_their_names(reader: EnglishReader, subtests: pytest.Subtests) -> None:
    options = SpeechOptions(reads=Hibari.info.reads, languages=("en",), join_words=0)
    for text, wanted in SENTENCES:
        with subtests.test(text=text):
            segments = prepare(text, options).segments
            words = [word for one in segments for word in (*reader.read(one.utterance.text), None)]
            said = "".join(word.phonemes + " " * word.space if word else " " for word in words)
            assert said.strip() == wanted


@pytest.mark.parametrize(
    ("reads", "utterance"),
    [((), "The C I A met at five P M."), (("acronyms",), "The CIA met at five PM."),
     (("ipa",), "The [[ˌsiːˌaɪˈeɪ]] met at five [[ˌpiːˈɛm]].")],
)  # fmt: skip
def test_letters_are_written_as_the_engine_reads_them(
    reads: tuple[str, ...], utterance: str
) -> None:
    [segment] = prepare("The CIA met at 5 p.m.", SpeechOptions(reads=reads, language="en")).segments
    assert segment.utterance.text == utterance
    assert segment.spoken == "The C I A met at five P M."
