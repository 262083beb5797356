"""`anyrig bench --speech`: figures that make sense, a table that can be read."""

from __future__ import annotations

import json

from anyrig.app.bench_speech import SpeechTiming, list_sentences
from anyrig.cli.bench import format_timings
from tests.conftest import Anyrig


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


def test_sentences_are_all_different_and_ten_words_long() -> None:
    texts = list(list_sentences())
    assert len(set(texts)) == 64
    assert {len(text.split()) for text in texts} == {10}
