"""What is spread over workers is what one machine makes: books, single texts, lists of lines."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.app.cluster import ClusterOptions, _check_voices_match, check_no_recordings
from anyrig.app.engines import EngineChoice
from anyrig.app.rig import Rig
from anyrig.cluster.registry import WorkerInfo
from anyrig.cluster.speech import identify_engine
from anyrig.errors import WorkError
from anyrig.speech.engines.tone import Tone
from anyrig.speech.prepare import prepare
from anyrig.speech.protocol import Voice
from tests.cluster.conftest import Broker, Spread, Workers, person, story, until

TONE = ("--engine", "tone", "--set", "sleep_s=0.002")


def test_a_book_over_two_workers_is_the_same_to_the_byte(
    broker: Broker, workers: Workers, spread: Spread
) -> None:
    workers(2)
    Path("b.txt").write_text(story(2, 10), encoding="utf-8")
    done = spread("book", "b.txt", *TONE, "-o", "cluster.m4b")
    assert done.returncode == 0, done.stderr
    local = spread("book", "b.txt", *TONE, "-o", "local.m4b", cluster="", home="alone")
    assert local.returncode == 0, local.stderr
    assert Path("cluster.m4b").read_bytes() == Path("local.m4b").read_bytes()
    until(
        lambda: all(card.shards_done for card in broker.living().values()), 10,
        what="work of both",
    )  # fmt: skip
    # What the cluster made is kept under the names of what this machine makes: nothing is made
    # again without it.
    again = spread("book", "b.txt", *TONE, "-o", "again.m4b", "--json", cluster="")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout.splitlines()[-1])
    assert told["kept"] == 2 * 11


def test_texts_lines_and_queued_books_go_there_too(
    broker: Broker, workers: Workers, spread: Spread, tmp_path: Path
) -> None:
    workers(1)
    for name, cluster in (("cluster.wav", None), ("local.wav", "")):
        done = spread("speak", "The tide came in at noon. It took the boat.", "--engine", "tone",
                      "-o", name, cluster=cluster, home=name)  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert Path("cluster.wav").read_bytes() == Path("local.wav").read_bytes()
    Path("l.txt").write_text("The rope.\nThe bell rang twice.\n", encoding="utf-8")
    done = spread("speak", "--lines", "l.txt", "-o", "out", "--engine", "tone", home="lines")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in Path("out").glob("*.wav")) == ["0001.wav", "0002.wav"]
    Path("b.txt").write_text("A queued book. It has two sentences.", encoding="utf-8")
    until(lambda: broker.living()["w1"].segments_done == 4, 10, what="two texts and two lines")
    before = 4
    done = spread("book", "b.txt", "--queue", "--engine", "tone", "-o", "queued.m4b", home="later")
    assert done.returncode == 0, done.stderr
    run = subprocess.run(
        [sys.executable, "-m", "anyrig", "jobs", "run"], capture_output=True, text=True, timeout=90,
        env=person(tmp_path / "later"),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr + run.stdout
    assert Path("queued.m4b").is_file()
    until(lambda: broker.living()["w1"].segments_done > before, 10, what="its segments")


def test_a_broker_that_is_none(spread: Spread) -> None:
    done = spread("speak", "Hello.", "--engine", "tone", "-o", "a.wav",
                  cluster="redis://127.0.0.1:1/0")  # fmt: skip
    assert done.returncode == 1
    assert "does not respond" in done.stderr
    done = spread("speak", "Hello.", "--engine", "tone", "-o", "a.wav", cluster="http://x/")
    assert done.returncode == 2
    assert "not a valid broker address" in done.stderr


# -- recordings of this machine --------------------------------------------------------------------


def test_a_recording_of_this_machine_is_refused_before_work_begins() -> None:
    Path("anna.wav").write_bytes(b"RIFF")
    script = prepare("Hello there.", limit=400, voice="anna.wav")
    assert script.segments[0].line.voice == "anna.wav"
    check_no_recordings(Rig(), ClusterOptions(), script.segments)
    with pytest.raises(WorkError, match=r"anna\.wav is a file on this machine"):
        check_no_recordings(Rig(), ClusterOptions(cluster="redis://h/0"), script.segments)


def test_voices_made_of_recordings_must_be_with_the_workers() -> None:
    found = Tone.find()
    own = replace(found, voices=(*found.voices, Voice("anna", "en", "tone", digest="abc")))
    choice = EngineChoice("tone", Tone, own, {}, True)
    has, lacks = (WorkerInfo("w", "1", engines=(identify_engine(one),)) for one in (own, found))
    _check_voices_match(choice, identify_engine(own), [has, lacks])
    _check_voices_match(choice, identify_engine(own), [])
    with pytest.raises(WorkError, match=r"has voices on this machine \(anna\)"):
        _check_voices_match(choice, identify_engine(own), [lacks])


def test_this_machine_and_the_cluster_work_on_one_run(
    broker: Broker, workers: Workers, spread: Spread
) -> None:
    workers(1)
    Path("l.txt").write_text("\n".join(f"Number {n} of the tide." for n in range(24)))
    slow = ("--engine", "tone", "--set", "sleep_s=0.01")
    done = spread("speak", "--lines", "l.txt", "-o", "both", *slow, "--cluster-local", "--json")
    assert done.returncode == 0, done.stderr
    until(lambda: 0 < broker.living()["w1"].segments_done < 24, 10, what="a part of it there")
    local = spread("speak", "--lines", "l.txt", "-o", "one", *slow, cluster="", home="alone")
    assert local.returncode == 0, local.stderr
    both, one = (sorted(Path(name).glob("*.wav")) for name in ("both", "one"))
    assert len(both) == 24
    assert [path.read_bytes() for path in both] == [path.read_bytes() for path in one]
