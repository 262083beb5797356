"""`anyrig speak` as a person meets it."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import soundfile

from anyrig.speech.choose import WeightsCache
from anyrig.speech.engine import EngineWeights, SpeechEngine
from tests.conftest import Anyrig
from tests.speech.gated_engine import install_gated_engine
from tests.waiting import wait_until

TEXT = "Alice was beginning to get very tired. She had nothing to do! Once or twice she peeped."


def _speak(anyrig: Anyrig, *words: str, code: int = 0, **options: Any) -> Any:
    done = anyrig("speak", *words, "--engine", "tone", "--json", **options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def test_the_default_voice_speaks_without_anything_being_said(anyrig: Anyrig) -> None:
    done = anyrig("speak", "Hello from a new machine.", stdin=-3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("speech.wav: ")
    audio, rate = soundfile.read("speech.wav")
    assert rate == 24000
    assert 1.0 < len(audio) / rate < 4.0
    assert "Measuring" not in done.stderr
    again = anyrig("speak", "Hello from a new machine.", stdin=-3)
    assert again.stdout.startswith("speech-2.wav: ")
    assert "1 of 1 cached" in again.stdout


def test_text_from_a_file_and_from_a_pipe_is_the_same(anyrig: Anyrig) -> None:
    Path("t.txt").write_text(TEXT, encoding="utf-16")
    one = _speak(anyrig, "-f", "t.txt", "-o", "a.wav")
    two = _speak(anyrig, "-o", "b.wav", input=TEXT)
    assert one["segments"] == two["segments"]
    assert two["cached"] == len(two["segments"])
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Hi.", "-o", "out.xyz"], "xyz"),
        (["Hi.", "-f", "missing.txt"], "a text and a file"),
        (["Hi.", "--voice", "nobody", "-o", "a.wav"], "nobody"),
        (["Hi.", "--set", "loud=1", "-o", "a.wav"], "no option 'loud'"),
        (["🙂", "-o", "a.wav"], "there is nothing to say"),
        (["Hi.", "--language", "xx", "-o", "a.wav"], "unknown language 'xx'"),
    ],
)
def test_bad_input_is_one_error_with_a_hint(anyrig: Anyrig, words: list[str], said: str) -> None:
    done = anyrig("speak", *words, "--engine", "tone")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(Path().glob("*.wav"))


def test_a_dry_run_prints_what_would_be_said(anyrig: Anyrig) -> None:
    done = anyrig("speak", "It cost $5 on 4 May 2021.", "--dry-run", "--engine", "tone")
    assert "five dollars" in done.stdout
    told = json.loads(
        anyrig("speak", "It cost $5.", "--dry-run", "--engine", "tone", "--json").stdout
    )
    assert told["segments"][0]["text"] == "It cost $5."


# -- many lines ----------------------------------------------------------------------------------


def test_lines_into_numbered_files_and_resumed(anyrig: Anyrig) -> None:
    Path("talk.txt").write_text("First line.\n\nSecond line.\nThird line.\n", encoding="utf-8")
    told = _speak(anyrig, "--lines", "talk.txt")
    assert (told["folder"], told["made"], told["left"]) == ("talk", 3, 0)
    names = sorted(path.name for path in Path("talk").glob("*.wav"))
    assert names == ["0001.wav", "0002.wav", "0003.wav"]
    Path("talk/0002.wav").unlink()
    before = Path("talk/0001.wav").stat().st_mtime_ns
    assert _speak(anyrig, "--lines", "talk.txt")["made"] == 1
    assert Path("talk/0001.wav").stat().st_mtime_ns == before
    Path("talk.txt").write_text("First line.\nSecond, changed.\nThird line.\n", encoding="utf-8")
    told = _speak(anyrig, "--lines", "talk.txt")
    assert (told["made"], told["left"]) == (1, 2)


def test_only_makes_entries_again_with_another_take(anyrig: Anyrig) -> None:
    rows = [{"id": "intro", "text": "Welcome to the show."}, {"id": "end", "text": "Good bye."}]
    Path("show.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert _speak(anyrig, "--lines", "show.jsonl", "-o", "out")["made"] == 2
    manifest = Path("out/lines.jsonl").read_text().splitlines()
    assert [json.loads(row)["seed"] for row in manifest] == [0, 0]
    told = _speak(anyrig, "--lines", "show.jsonl", "-o", "out", "--only", "end")
    assert told["made"] == 1
    last = json.loads(Path("out/lines.jsonl").read_text().splitlines()[-1])
    assert (last["file"], last["seed"]) == ("end.wav", 1)
    told = _speak(anyrig, "--lines", "show.jsonl", "-o", "out")
    assert (told["made"], told["left"]) == (0, 2)


def test_the_name_of_a_file_is_not_read_aloud(anyrig: Anyrig) -> None:
    Path("book.txt").write_text(TEXT, encoding="utf-8")
    done = anyrig("speak", "book.txt", "--engine", "tone")
    assert done.returncode == 2
    assert "-f book.txt" in done.stderr
    for missing in ("nobook.txt", "./nobook", "a" * 300 + ".txt"):
        done = anyrig("speak", missing, "--engine", "tone")
        assert done.returncode == 2
        assert f"no such file: {missing[:40]}" in done.stderr  # a long one is cut
    assert not list(Path().glob("*.wav"))


@pytest.mark.skipif(sys.platform == "win32", reason="it has no /dev")
def test_a_device_and_a_folder_are_no_texts(anyrig: Anyrig) -> None:
    Path("music").mkdir()
    for name, kind in (("/dev/zero", "a device"), ("music", "a folder")):
        for flags in (("-f", name), ("--lines", name)):
            done = anyrig("speak", *flags, "--engine", "tone")
            assert done.returncode == 2
            assert f"{name} is {kind}, not a text file" in done.stderr


def test_the_name_of_a_folder_or_a_file_with_a_full_stop_is_read_aloud(anyrig: Anyrig) -> None:
    Path("music").mkdir()
    for words in ("music", "nobook.txt.", "and/or", "~5", "~5 minutes left"):
        done = anyrig("speak", words, "--engine", "tone", "--dry-run")
        assert done.returncode == 0, done.stderr


def test_a_format_may_be_named_by_its_suffix(anyrig: Anyrig) -> None:
    done = anyrig("speak", "Hi.", "--engine", "tone", "--format", "ogg", stdin=-3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("speech.opus: ")
    assert "0.0 times" not in done.stdout


def test_voices_are_listed_by_language_and_name(anyrig: Anyrig) -> None:
    told = json.loads(anyrig("voices", "--json").stdout)["voices"]
    names = {voice["name"]: voice for voice in told}
    assert names["heart"]["engine"] == "hibari"
    assert names["fr-FR"]["language"] == "fr"
    assert "tone" not in names
    french = json.loads(anyrig("voices", "--language", "French", "--json").stdout)["voices"]
    assert {voice["language"] for voice in french} == {"fr"}
    found = json.loads(anyrig("voices", "--match", "hear", "--json").stdout)["voices"]
    assert [voice["name"] for voice in found] == ["heart"]
    listed = anyrig("voices").stdout
    assert "`anyrig voices get CODE` for en, es, fr, it, pt." in listed
    assert max(map(len, listed.splitlines())) <= 80


def test_samples_are_written_in_each_voice(anyrig: Anyrig) -> None:
    done = anyrig("voices", "--engine", "tone", "--samples", "out", "--format", "flac", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["samples"] == ["tone-tone.flac", "tone-tono.flac",
                                                  "tone-ton.flac"]  # fmt: skip
    for path in Path("out").iterdir():
        assert soundfile.info(str(path)).duration > 1.5
    done = anyrig("voices", "--engine", "tone", "--samples", "out", "--format", "midi")
    assert done.returncode == 2


def test_an_engine_is_measured_on_the_cpu(anyrig: Anyrig) -> None:
    done = anyrig("bench", "--speech", "--engine", "tone", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["engine"] == "tone"
    (row,) = told["speech"]
    assert (row["through"], row["precision"]) == ("cpu", "fp32")
    assert 0 < row["first_audio_s"] < row["load_s"] + row["first_run_s"]
    assert row["spread_s"][0] <= row["sentence_s"] <= row["spread_s"][1]
    assert 0 < row["real_time_factor"] < 1
    assert row["many"] > 1


def test_a_voice_in_the_settings_that_their_engine_lacks_is_warned_of_once(
    anyrig: Anyrig, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = set()
    find = WeightsCache.find

    def note(self: WeightsCache, engine: type[SpeechEngine], *where: Any) -> EngineWeights:
        looked_at.add(engine.info.name)
        return find(self, engine, *where)

    monkeypatch.setattr(WeightsCache, "find", note)
    settings = {"ANYRIG_SPEECH_ENGINE": "tone", "ANYRIG_SPEECH_VOICE": "bella"}
    done = anyrig("speak", "Hello.", "-o", "a.wav", environment=settings)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("tone has no voice 'bella'") == 1
    assert "`anyrig voices`" in done.stderr
    assert looked_at == {"tone"}
    done = anyrig("speak", "Hello.", "-o", "b.wav", "--engine", "tone", environment=settings)
    assert "bella" not in done.stderr, "the request names the engine"


PLAYER = """#!{python}
import os
with open({heard!r}, "wb", buffering=0) as heard:
    while data := os.read(0, 65536):
        heard.write(data)
"""


def test_an_engine_that_streams_is_heard_before_its_sentence_is_made(
    anyrig: Anyrig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The player is a program that notes what it gets; the engine waits after its first part."""
    programs, heard = tmp_path / "programs", tmp_path / "heard"
    programs.mkdir()
    player = programs / "aplay"
    player.write_text(PLAYER.format(python=sys.executable, heard=str(heard)))
    player.chmod(0o755)
    plugin = install_gated_engine(tmp_path / "plugin")
    monkeypatch.syspath_prepend(plugin["PYTHONPATH"])
    sizes = []

    def listen() -> None:
        try:
            wait_until(lambda: heard.exists() and heard.stat().st_size)
            sizes.append(heard.stat().st_size)
        finally:
            Path(plugin["GATE_FILE"]).touch()

    listener = threading.Thread(target=listen)
    listener.start()
    words = ("speak", "The tide came in at noon.", "--engine", "gated", "--json")
    done = anyrig(*words, "--play", environment={**plugin, "PATH": str(programs)})
    listener.join()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    num_bytes = 2 * round(told["audio_s"] * 24000)
    assert 0 < sizes[0] < num_bytes
    assert heard.stat().st_size == num_bytes
