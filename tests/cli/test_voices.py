"""`anyrig voices`: the list, its filters, and samples."""

from __future__ import annotations

import json
from pathlib import Path

import soundfile

from tests.conftest import Anyrig


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
