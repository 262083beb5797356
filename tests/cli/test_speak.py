"""`anyrig speak` as a person meets it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import soundfile

from anyrig.app.bench_speech import SpeechTiming
from anyrig.cli.bench import format_timings
from tests.conftest import Anyrig

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


@pytest.mark.parametrize("ending", ["wav", "flac", "mp3", "opus", "m4a"])
def test_files_of_every_format(anyrig: Anyrig, ending: str) -> None:
    told = _speak(anyrig, TEXT, "-o", f"out.{ending}")
    assert told["file"] == f"out.{ending}"
    assert Path(f"out.{ending}").stat().st_size > 1000
    assert not list(Path().glob("*.tmp*"))
    if ending != "m4a":
        info = soundfile.info(f"out.{ending}")
        assert abs(info.duration - told["audio_s"]) < 0.1


def test_segments_have_their_text_and_times(anyrig: Anyrig) -> None:
    told = _speak(anyrig, TEXT, "-o", "a.wav")
    segments = told["segments"]
    assert " ".join(segment["text"] for segment in segments).split() == TEXT.split()
    assert segments[0]["start_s"] == 0
    for before, after in zip(segments, segments[1:], strict=False):
        assert before["end_s"] == pytest.approx(after["start_s"], abs=1e-3)
    assert segments[0]["words"][0][0] == "Alice"
    assert told["audio_s"] == pytest.approx(segments[-1]["end_s"], abs=1e-3)


def test_text_from_a_file_and_from_a_pipe_is_the_same(anyrig: Anyrig) -> None:
    Path("t.txt").write_text(TEXT, encoding="utf-16")
    one = _speak(anyrig, "-f", "t.txt", "-o", "a.wav")
    two = _speak(anyrig, "-o", "b.wav", input=TEXT)
    assert one["segments"] == two["segments"]
    assert two["kept"] == len(two["segments"])
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


def test_audio_goes_to_the_standard_output_as_it_is_made(anyrig: Anyrig) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "anyrig", "speak", TEXT, "--engine", "tone", "-o", "-"],
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout[:4] == b"RIFF"
    assert len(done.stdout) > 100_000
    assert b"of speech in" in done.stderr


def test_it_is_played_by_whatever_player_there_is(anyrig: Anyrig, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    player = tools / "aplay"
    player.write_text(f"#!/bin/sh\ncat > {tmp_path}/heard\n")
    player.chmod(player.stat().st_mode | stat.S_IEXEC)
    path = f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin"
    done = anyrig("speak", TEXT, "--engine", "tone", "--play", environment={"PATH": path})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "heard").stat().st_size > 100_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Hi.", "-o", "out.xyz"], "xyz"),
        (["Hi.", "-o", "none/out.wav"], "no folder none"),
        (["-f", "missing.txt"], "no such file: missing.txt"),
        (["Hi.", "-f", "missing.txt"], "a text and a file"),
        (["Hi.", "--voice", "nobody", "-o", "a.wav"], "nobody"),
        (["Hi.", "--rate", "9"], "--rate must be a number between 0.25 and 4"),
        (["Hi.", "--set", "loud=1", "-o", "a.wav"], "no option 'loud'"),
        (["   ", "-o", "a.wav"], "empty"),
        (["🙂", "-o", "a.wav"], "hint"),
        (["Hi.", "--only", "3"], "--lines"),
        (["Hi.", "--format", "midi"], "midi"),
        (["Hi.", "--lexicon", "none.toml", "-o", "a.wav"], "none.toml"),
    ],
)
def test_bad_input_is_one_error_with_a_hint(anyrig: Anyrig, words: list[str], said: str) -> None:
    done = anyrig("speak", *words, "--engine", "tone")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(Path().glob("*.wav"))


def test_a_language_the_engine_does_not_know_is_refused_with_one_that_does(anyrig: Anyrig) -> None:
    german = (
        "Der alte Wärter ging langsam die Treppe hinunter und zählte jede einzelne Stufe, "
        "weil er nicht schlafen konnte und der Sturm an den Fenstern rüttelte."
    )
    done = anyrig("speak", german, "--engine", "hibari", "-o", "a.wav")
    assert done.returncode == 2, done.stderr
    assert "German" in done.stderr
    assert "nanotts" in done.stderr
    assert not Path("a.wav").exists()


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


def test_a_voice_of_another_language_is_told_before_anything_is_loaded(anyrig: Anyrig) -> None:
    french = "Le vieux gardien descendait lentement et comptait chaque marche de l'escalier."
    done = anyrig("speak", french, "--engine", "nanotts", "--voice", "en-US", "-o", "a.wav")
    assert done.returncode == 2, done.stderr
    assert "fr" in done.stderr
    assert not Path("a.wav").exists()


def test_voices_are_listed_by_language_and_name(anyrig: Anyrig) -> None:
    told = json.loads(anyrig("voices", "--json").stdout)["voices"]
    names = {voice["name"]: voice for voice in told}
    assert names["heart"]["engine"] == "hibari"
    assert names["fr-FR"]["language"] == "fr"
    assert "tone" not in names
    french = json.loads(anyrig("voices", "--language", "fr", "--json").stdout)["voices"]
    assert {voice["language"] for voice in french} == {"fr"}
    found = json.loads(anyrig("voices", "--match", "hear", "--json").stdout)["voices"]
    assert [voice["name"] for voice in found] == ["heart"]
    listed = anyrig("voices").stdout
    assert "anyrig engines get kokoro" in listed
    assert max(map(len, listed.splitlines())) <= 80


def test_no_such_voice_is_an_error(anyrig: Anyrig) -> None:
    done = anyrig("voices", "--match", "nobody")
    assert done.returncode == 2
    assert "anyrig engines" in done.stderr


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


def test_a_format_the_engine_lacks_is_told(anyrig: Anyrig) -> None:
    done = anyrig("bench", "--speech", "--engine", "tone", "--device", "cpu", "--precision", "fp16")
    assert done.returncode == 2, done.stderr
    assert "tone does not support fp16" in done.stderr


def test_the_table_fits_80_columns() -> None:
    name = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
    rows = [
        SpeechTiming(
            name, "cuda:0", precision, 12.3, 1.234, 0.123, 0.0456, (0.04, 0.05), 0.0123, 1234.5
        )
        for precision in ("fp32", "bf16")
    ]
    text = format_timings("vibevoice-realtime", rows)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count(name) == 1
