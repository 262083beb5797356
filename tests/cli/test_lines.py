"""`anyrig speak --lines`: a bad entry costs its own file; odd JSON is refused plainly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidInputError
from anyrig.speech.batch import BatchLine, read_lines
from tests.conftest import Anyrig

TONE = ("--engine", "tone", "--json")


def _jsonl(*rows: dict[str, Any] | str) -> Path:
    path = Path("list.jsonl")
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


# -- what cannot be said ---------------------------------------------------------------------------


def test_a_line_with_nothing_to_say_costs_its_own_file_alone(anyrig: Anyrig) -> None:
    Path("talk.txt").write_text("First line.\n***\nThird line.\n", encoding="utf-8")
    done = anyrig("speak", "--lines", "talk.txt", *TONE)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["made"], told["failed"]) == (2, ["0002"])
    assert sorted(path.name for path in Path("talk").glob("*.wav")) == ["0001.wav", "0003.wav"]
    assert "0002: there is nothing to say" in done.stderr
    again = anyrig("speak", "--lines", "talk.txt", *TONE)
    told = json.loads(again.stdout)
    assert (again.returncode, told["made"], told["left"], told["failed"]) == (1, 0, 2, ["0002"])


def test_a_short_foreign_line_is_read_as_the_list_is(anyrig: Anyrig) -> None:
    long = "Le vieux gardien descendit lentement l'escalier et compta chaque marche, parce qu'il "
    rows = [
        "The old keeper walked down the stairs and counted them. " * 6, "Merci beaucoup.", "OK.",
        long + "ne pouvait pas dormir et que la mer montait.",
    ]  # fmt: skip
    Path("talk.txt").write_text("\n".join(rows), encoding="utf-8")
    done = anyrig("speak", "--lines", "talk.txt", "--engine", "hibari", "--dry-run", "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert [row["file"] for row in told["lines"]] == ["0001.wav", "0002.wav", "0003.wav"]
    assert told["failed"] == ["0004"]
    assert "'Merci beaucoup.' looks like French; read as English" in done.stderr
    assert "nanotts" in done.stderr  # who could say it


def test_what_was_asked_for_all_is_refused_at_once(anyrig: Anyrig) -> None:
    Path("talk.txt").write_text("First line.\nSecond line.\n", encoding="utf-8")
    for asked in (("--language", "de"), ("--voice", "nobody"), ("--lexicon", "none.toml")):
        done = anyrig("speak", "--lines", "talk.txt", "--engine", "hibari", *asked)
        assert done.returncode == 2, done.stderr
        assert "hint:" in done.stderr
        assert not Path("talk").exists()


# -- the file of entries ---------------------------------------------------------------------------


def test_separators_within_a_string_end_no_row(anyrig: Anyrig) -> None:
    _jsonl('{"id": "a", "text": "Hello\u2028there."}', '{"id": "b", "text": "Good\\u2028day."}')
    assert [entry.text for entry in read_lines(Path("list.jsonl"))] == [
        "Hello\u2028there.", "Good\u2028day.",
    ]  # fmt: skip
    assert json.loads(anyrig("speak", "--lines", "list.jsonl", *TONE).stdout)["made"] == 2
    told = json.loads(anyrig("speak", "--lines", "list.jsonl", *TONE).stdout)
    assert (told["made"], told["left"]) == (0, 2)


def test_null_is_as_if_it_were_not_there() -> None:
    row = '{"id": null, "text": "Hi.", "voice": null, "language": null, "rate": null, "seed": null}'
    (entry,) = read_lines(_jsonl(row))
    assert entry == BatchLine(1, "Hi.")
    assert entry.stem == "0001"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"text": "a", "seed": 1e999}', "numbers"),
        ('{"text": "a", "rate": NaN}', "rate must be between 0.25 and 4, not nan"),
        (r'{"text": "a", "id": "\ud800"}', "not a valid file name"),
        ('{"text": "a", "id": "' + "é" * 150 + '"}', "too long"),
    ],
)
def test_odd_values_are_refused_plainly(row: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        read_lines(_jsonl(row))
    assert "line 1" in caught.value.message
    caught.value.message.encode()


def test_half_a_character_in_a_text_is_no_trouble(anyrig: Anyrig) -> None:
    _jsonl(r'{"id": "a", "text": "Hello \ud800 there."}')
    done = anyrig("speak", "--lines", "list.jsonl", *TONE)
    assert done.returncode == 0, done.stderr


def test_a_manifest_cut_off_in_mid_line_swallows_no_other(anyrig: Anyrig) -> None:
    Path("talk.txt").write_text("First line.\nSecond line.\n", encoding="utf-8")
    assert anyrig("speak", "--lines", "talk.txt", *TONE).returncode == 0
    manifest = Path("talk/lines.jsonl")
    manifest.write_bytes(manifest.read_bytes()[:-20])
    assert json.loads(anyrig("speak", "--lines", "talk.txt", *TONE).stdout)["made"] == 1
    told = json.loads(anyrig("speak", "--lines", "talk.txt", *TONE).stdout)
    assert (told["made"], told["left"]) == (0, 2)


# -- as a job --------------------------------------------------------------------------------------


def test_a_list_is_queued_and_told_of_as_it_is_spoken(anyrig: Anyrig) -> None:
    Path("talk.txt").write_text("First line.\n***\nThird line.\n", encoding="utf-8")
    queued = anyrig("speak", "--lines", "talk.txt", *TONE, "--format", "flac", "--queue",
                    "--set", "sleep_s=0.001")  # fmt: skip
    job = json.loads(queued.stdout)
    assert (job["kind"], job["state"]) == ("batch", "queued")
    done = anyrig("jobs", "run", "--json")
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["made"], last["failed"]) == ("done", 2, ["0002"])
    assert sorted(path.name for path in Path("talk").glob("*.flac")) == ["0001.flac", "0003.flac"]
    shown = anyrig("jobs").stdout
    assert "batch" in shown
    assert "talk.txt" in shown
    told = anyrig("speak", "--lines", "talk.txt", *TONE, "--fresh", "--events", "-o", "again")
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert [row["event"] for row in rows][-1] == "done"
    assert rows[0]["event"] == "progress"
    assert rows[-2]["done"] == 1.0
    assert "--queue requires --lines" in anyrig("speak", "Hello.", *TONE, "--queue").stderr
    assert "--events requires --lines" in anyrig("speak", "Hello.", *TONE, "--events").stderr
