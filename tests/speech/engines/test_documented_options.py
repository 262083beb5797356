"""The options that the docs name are those that the engines take."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.engine import Utterance, resolve_options
from anyrig.speech.engines import indextts
from tests.conftest import ROOT

_ENGINES = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
_COMING_FROM = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
_SECTIONS = {
    found[1]: " ".join(found[2].split())
    for found in re.finditer(r"^### (\S+)\n(.*?)(?=^##)", _ENGINES, re.M | re.S)
}
_SPOKEN = [
    (cell, engine)
    for line in _COMING_FROM.splitlines()
    if (found := re.search(r"--engine ([a-z-]+) --(?:set|precision)", line))
    for engine in [found[1]]
    for cell in re.findall(r"--(?:set|precision) [^`;,| ]+", line)
]


@pytest.mark.parametrize("name", [name for name in engines.list_names() if name in _SECTIONS])
def test_a_section_names_every_option_of_its_engine(name: str) -> None:
    taken = {option.name for option in engines.engine_class(name).info.options}
    found = re.search(r"(?:Options?: |Its options [^:]*: )(.*?)\.(?: |$)", _SECTIONS[name])
    named = set(re.findall(r"`([a-z_]+)`", found[1])) if found else set()
    assert named == taken


@pytest.mark.parametrize(("words", "engine"), _SPOKEN)
def test_what_users_of_other_tools_are_told_is_taken(words: str, engine: str) -> None:
    flag, value = words.split()
    info = engines.engine_class(engine).info
    if flag == "--precision":
        assert value in info.precisions
    else:
        key, _, wanted = value.partition("=")
        assert resolve_options(info, {key: wanted})[key] == type(resolve_options(info, {})[key])(
            wanted
        )


class _Model:
    """Stands in for IndexTTS2 of both packages: records what it is given."""

    dtype: Any = None
    _speaker_conditioning = _emotion_conditioning = None
    _get_speaker_conditioning = _get_emotion_conditioning = None

    def __init__(self, **given: Any) -> None:
        self.loaded = given
        self.said: dict[str, Any] = {}
        # Its packages convert the language model where they have an argument for the format.
        half = {"use_fp16": torch.float16, "use_bf16": torch.bfloat16}
        formats = [one for name, one in half.items() if given.get(name)]
        self.gpt = torch.nn.Linear(2, 2).to(formats[0] if formats else torch.float32)

    def infer(self, **given: Any) -> tuple[int, Any]:
        self.said = given
        return 22050, np.zeros((1, 11025), np.int16)

    def infer_generator(self, voice: str, *_: Any, **given: Any) -> Any:
        self.said = {"spk_audio_prompt": voice, **given}
        yield torch.full((1, 64), 3276.8)


def _open_indextts(
    engine: Any, placement: Placement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    for name in ("indextts.infer_v2", "indextts25.infer_v2_5"):
        library = types.ModuleType(name)
        library.IndexTTS2 = _Model  # type: ignore[attr-defined]
        package = name.partition(".")[0]
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
        monkeypatch.setitem(sys.modules, name, library)
    handle = types.SimpleNamespace(device=torch.device("cuda"))
    monkeypatch.setattr(indextts, "open_torch", lambda placement: handle)
    monkeypatch.setattr(indextts, "check_shapes", lambda folder, version: None)
    monkeypatch.setattr(indextts, "_check_hub_cache", lambda folder: None)
    names = indextts._FILES if engine is indextts.IndexTts else indextts._FILES_2
    for name in (*names, "voices/anna.wav", "voices/sad.wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    given = {"max_mel_tokens": "800", "max_text_tokens_per_sentence": "100"}
    given |= {"emo_audio_prompt": "sad", "emo_alpha": "0.7", "duration": "1.5"}
    options = resolve_options(engine.info, given)
    return engine(placement, folder=str(tmp_path), **options)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("engine", [indextts.IndexTts, indextts.IndexTts2])
def test_indextts_is_given_what_was_set(
    engine: Any, precision: Any, on_cpu: Placement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placement = replace(on_cpu, precision=precision)
    loaded = _open_indextts(engine, placement, tmp_path, monkeypatch)
    (take,) = loaded.run([Utterance("Hello.", voice="anna")])
    assert take.rate == 22050
    model = loaded._model
    formats = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    assert model.gpt.weight.dtype is formats[precision]
    assert model.said["max_mel_tokens"] == 800
    assert model.said["max_text_tokens_per_segment"] == 100
    assert model.said["spk_audio_prompt"] == str(tmp_path / "voices" / "anna.wav")
    assert model.said["emo_audio_prompt"] == str(tmp_path / "voices" / "sad.wav")
    assert model.said["emo_alpha"] == 0.7
    if engine is indextts.IndexTts2:
        assert len(take.samples) == pytest.approx(11025 * 1.5, rel=0.02)
        assert model.loaded["use_fp16"] == (precision == "fp16")
        assert (model.dtype is torch.bfloat16) == (precision == "bf16")
    else:
        assert model.said["duration_factor"] == 1.5
        assert take.samples == pytest.approx(np.full(64, 0.1), abs=1e-3)
        assert model.loaded["use_bf16"] == (precision == "bf16")
        assert (model.dtype is torch.float16) == (precision == "fp16")


def test_a_language_model_that_ends_at_once_makes_an_empty_take(
    on_cpu: Placement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is then tried again: the package of version 2.0 returns nothing."""
    loaded = _open_indextts(indextts.IndexTts2, on_cpu, tmp_path, monkeypatch)
    monkeypatch.setattr(loaded._model, "infer", lambda **_: None)
    (take,) = loaded.run([Utterance("Hello.", voice="anna")])
    assert not len(take.samples)
