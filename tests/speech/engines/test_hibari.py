"""hibari through our own session: the package's samples, with word times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyrig.audio.samples import frame_power
from anyrig.errors import MissingWeightsError
from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.engine import SpeechEngine, Take, Utterance
from anyrig.speech.engines import hibari, installed
from anyrig.storage import derived

TEXT = "The keeper walked down, and Zbigniew waited."


@pytest.fixture
def voice(on_cpu: Placement) -> SpeechEngine:
    return engines.load_engine(on_cpu, engine="hibari")


def test_it_says_what_the_package_says(voice: SpeechEngine) -> None:
    """But for names and homographs, which we pronounce ourselves."""
    from hibari import Hibari

    text = "The keeper walked down, and his brother waited."
    (take,) = voice.run([Utterance(text)])
    theirs = Hibari()(text, seed=0)
    assert len(take.samples) == len(theirs)
    # The same but for its noise, which is drawn from a table.
    assert np.corrcoef(take.samples, theirs)[0, 1] > 0.999


def test_a_voice_exported_in_another_way_sounds_the_same(
    voice: SpeechEngine, on_cpu: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hibari, "_PLANES", "/a/name/it/does/not/have")
    other = engines.load_engine(on_cpu, engine="hibari")
    ours, theirs = (engine.run([Utterance(TEXT, seed=11)])[0] for engine in (voice, other))
    assert np.array_equal(ours.samples, theirs.samples)
    assert ours.words == theirs.words


@pytest.mark.parametrize("damage", ["", "damaged", "foreign"])
def test_a_graph_of_an_earlier_process_gives_the_same_samples(
    voice: SpeechEngine,
    on_cpu: Placement,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
) -> None:
    monkeypatch.setattr(derived, "_folder", tmp_path / "derived")
    engines.load_engine(on_cpu, engine="hibari")
    (path,) = (tmp_path / "derived").glob("hibari-heart.ort.*")
    if damage == "damaged":
        path.write_bytes(path.read_bytes()[:-1000])
    elif damage == "foreign":
        derived.write(path, b"the graph of another program")
    else:
        monkeypatch.setattr(hibari, "_build_model", None)  # the weights are not read again
    again = engines.load_engine(on_cpu, engine="hibari")
    ours, theirs = (engine.run([Utterance(TEXT, seed=11)])[0] for engine in (voice, again))
    assert np.array_equal(ours.samples, theirs.samples)
    assert derived.read(path) is not None


def test_phonemes_are_said_as_written(voice: SpeechEngine) -> None:
    written, told = voice.run(
        [Utterance("A tomato.", seed=1), Utterance("A [[təˈmeɪtoʊ]].", seed=1)]
    )
    assert abs(written.duration_s - told.duration_s) < 0.15
    british = voice.run([Utterance("A [[təˈmɑːtəʊ]].", seed=1)])[0]
    assert not np.array_equal(british.samples, told.samples)


@pytest.mark.parametrize("mark", [",", ""])
def test_a_very_long_utterance_has_no_gap_where_its_parts_meet(
    voice: SpeechEngine, mark: str
) -> None:
    clause = f"Considerable misunderstandings notwithstanding extraordinary circumstances{mark} "
    (take,) = voice.run([Utterance(clause * 9)])
    assert len(take.words) == 9 * 5
    assert take.words[-1].end_s > 0.95 * take.duration_s - 0.5
    times = [time for word in take.words for time in (word.start_s, word.end_s)]
    assert times == sorted(times)
    assert max(_measure_gaps(take)) < 0.5  # it was 0.75 where two parts met


def _measure_gaps(take: Take) -> list[float]:
    """Seconds of each silence between two sounds."""
    frame = take.rate // 100
    power = frame_power(take.samples, frame)
    loud = np.flatnonzero(power > power.max() * 10**-4.5)
    return [float(gap) / 100 for gap in np.diff(loud)]


def test_the_seed_draws_noise_that_nobody_hears(voice: SpeechEngine) -> None:
    """So the voice does not vary with it: another take is spoken at another pace."""
    assert not hibari.Hibari.info.varies_with_seed
    one, other = voice.run([Utterance(TEXT, seed=seed) for seed in (1, 2)])
    assert np.corrcoef(one.samples, other.samples)[0, 1] > 0.999


def test_the_other_voices_are_found_in_a_folder_and_checked(tmp_path: Path) -> None:
    assert [found.name for found in hibari.Hibari.find_weights(tmp_path).voices] == ["heart"]
    (tmp_path / "bf_emma.int8.onnx").write_bytes(b"not the voice")
    with pytest.raises(MissingWeightsError, match="SHA-256 differs") as caught:
        hibari.Hibari.find_weights(tmp_path)
    assert "f709f0488ee6" in caught.value.hint


def test_the_other_voices_are_found_as_they_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`anyrig engines get hibari` stores the repository as it is, with a folder `voices`."""
    (tmp_path / "voices").mkdir()
    path = tmp_path / "voices" / "bf_emma.int8.onnx"
    path.write_bytes(b"the voice")
    monkeypatch.setattr(installed, "check_sha256", lambda path, sha256: None)
    found = hibari.Hibari.find_weights(tmp_path)
    assert [voice.name for voice in found.voices] == ["heart", "emma"]
