"""Books, jobs and vectors over a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.app.cluster import ClusterOptions, _check_voices_match, check_no_recordings
from anyrig.app.jobs import ClusterJobQueue, build_arguments, make_job_handler
from anyrig.app.rig import Rig
from anyrig.cluster.embedding import EmbeddingCodec
from anyrig.cluster.registry import WorkerInfo
from anyrig.cluster.speech import identify_engine
from anyrig.documents.protocol import TextBlock
from anyrig.errors import InvalidInputError, WorkError
from anyrig.jobs import JobQueue, run_jobs
from anyrig.speech.choose import EngineChoice, EngineReason
from anyrig.speech.engine import Voice
from anyrig.speech.engines.tone import Tone
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.storage.keys import JsonValue
from tests.cluster.conftest import Broker, Spread, Workers, person, story, until

TONE = ("--engine", "tone", "--set", "sleep_s=0.002")


def test_a_book_over_two_workers_is_the_same_to_the_byte(
    broker: Broker, workers: Workers, spread: Spread
) -> None:
    workers(2)
    Path("b.txt").write_text(story(2, 5), encoding="utf-8")
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
    assert told["cached"] == 2 * 6


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
    until(lambda: broker.living()["w1"].segments_done == 4, what="two texts and two lines")
    before = 4
    done = spread("book", "b.txt", "--queue", "--engine", "tone", "-o", "queued.m4b", home="later")
    assert done.returncode == 0, done.stderr
    run = subprocess.run(
        [sys.executable, "-m", "anyrig", "jobs", "run"], capture_output=True, text=True, timeout=90,
        env=person(tmp_path / "later"),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr + run.stdout
    assert Path("queued.m4b").is_file()
    until(lambda: broker.living()["w1"].segments_done > before, what="its segments")


# -- recordings of this machine --------------------------------------------------------------------


def test_a_recording_of_this_machine_is_refused_before_work_begins() -> None:
    Path("anna.wav").write_bytes(b"RIFF")
    script = prepare("Hello there.", SpeechOptions(max_chars=400, voice="anna.wav"))
    assert script.segments[0].utterance.voice == "anna.wav"
    check_no_recordings(Rig(), ClusterOptions(), script.segments)
    with pytest.raises(WorkError, match=r"anna\.wav is a file on this machine"):
        check_no_recordings(Rig(), ClusterOptions(cluster="redis://h/0"), script.segments)


def test_a_file_that_is_called_like_a_voice_is_no_recording() -> None:
    Path("heart").write_bytes(b"RIFF")
    script = prepare("Hello there.", SpeechOptions(max_chars=400, voice="heart"))
    check_no_recordings(Rig(), ClusterOptions(cluster="redis://h/0"), script.segments)


def test_voices_made_of_recordings_must_be_with_the_workers() -> None:
    found = Tone.find_weights()
    own = replace(found, voices=(*found.voices, Voice("anna", "en", "tone", digest="abc")))
    choice = EngineChoice("tone", Tone, own, {}, EngineReason.REQUESTED)
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
    slow = ("--engine", "tone", "--set", "sleep_s=0.01", "--no-bench")
    done = spread("speak", "--lines", "l.txt", "-o", "both", *slow, "--cluster-local", "--json")
    assert done.returncode == 0, done.stderr
    until(lambda: 0 < broker.living()["w1"].segments_done < 24, what="a part of it there")
    local = spread("speak", "--lines", "l.txt", "-o", "one", *slow, cluster="", home="alone")
    assert local.returncode == 0, local.stderr
    both, one = (sorted(Path(name).glob("*.wav")) for name in ("both", "one"))
    assert len(both) == 24
    assert [path.read_bytes() for path in both] == [path.read_bytes() for path in one]


def test_what_can_be_spread_is_spread(tmp_path: Path) -> None:
    jobs: JobQueue = ClusterJobQueue(tmp_path / "jobs.sqlite")
    assert jobs.submit("book", {"file": "a"}).arguments["cluster"] == "yes"
    assert jobs.submit("batch", {"file": "a"}).arguments["cluster"] == "yes"
    assert jobs.submit("book", {"file": "a", "cluster": "no"}).arguments["cluster"] == "no"
    assert "cluster" not in jobs.submit("index", {"file": "a"}).arguments
    # `anyrig jobs` opens the same file, and sees all of them.
    with JobQueue(tmp_path / "jobs.sqlite") as same:
        assert [one.id for one in same.list()] == [one.id for one in jobs.list()]
    assert isinstance(jobs, ClusterJobQueue)
    jobs.close()


@pytest.fixture
def jobs(tmp_path: Path, broker: Broker) -> Iterator[ClusterJobQueue]:
    """Jobs that are worked on; the broker comes by the environment alone."""
    home = tmp_path / "owner"
    env = person(home, {"ANYRIG_CLUSTER_BROKER": broker.url})
    stop = threading.Event()
    found = ClusterJobQueue(tmp_path / "jobs.sqlite")
    with found:
        thread = threading.Thread(
            target=run_jobs, args=(found, make_job_handler(env)), kwargs={"stop": stop}, daemon=True
        )
        thread.start()
        yield found
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.slow
def test_pause_and_resume_reach_the_workers(
    jobs: ClusterJobQueue, broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    """Cancelling is looked at over HTTP, in tests/server."""
    workers(1)
    file, num = tmp_path / "story.txt", 24
    file.write_text(story(1, num))
    asked: dict[str, JsonValue] = {
        "file": str(file), "output": str(tmp_path / "out.m4b"), "engine": "tone",
        "set": {"sleep_s": 0.004}, "device": "cpu", "no_bench": True,
    }  # fmt: skip
    id = jobs.submit("book", build_arguments("book", asked, tmp_path)).id

    def at_work() -> bool:
        return bool(broker.living()["w1"].tasks)

    def state() -> str:
        job = jobs.get(id)
        assert job.error is None, job.error
        return job.state

    until(at_work, what="a shard at the worker")
    jobs.pause(id)
    until(lambda: state() == "paused", what="the pause")
    until(lambda: not at_work(), what="the worker to be free")
    made = broker.living()["w1"].segments_done
    assert made < num  # it was in the middle

    jobs.resume(id)
    until(lambda: state() == "done", 90, what="the book")
    assert (tmp_path / "out.m4b").stat().st_size > 1000
    assert jobs.get(id).attempts == 2


CODEC = EmbeddingCodec()


def test_embed_and_index_use_the_workers(
    broker: Broker, workers: Workers, spread: Spread, tmp_path: Path
) -> None:
    workers(1)
    assert "embed:hashing" in {one.engine for one in broker.living()["w1"].engines}
    Path("l.txt").write_text("\n".join(f"The tide of day {n} took the boat." for n in range(300)))
    words = ("embed", "--lines", "l.txt", "--model", "hashing", "--no-cache", "-o")
    for name, cluster in (("cluster.npy", None), ("local.npy", "")):
        done = spread(*words, name, cluster=cluster, home=name)
        assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load("cluster.npy"), np.load("local.npy"))
    until(lambda: broker.living()["w1"].segments_done > 0, what="its work")
    before = broker.living()["w1"].segments_done
    Path("papers").mkdir()
    Path("papers/a.txt").write_text("The tide came in at noon. " * 50)
    indexed = spread("index", "papers", "--model", "hashing", home="indexer")
    assert indexed.returncode == 0, indexed.stderr
    until(lambda: broker.living()["w1"].segments_done > before, what="its work")


def test_a_damaged_block_of_texts_is_refused() -> None:
    good = TextBlock(["The tide.", "\ud83d"], "query")
    sent = CODEC.encode_item(good)
    assert CODEC.decode_item(json.loads(json.dumps(sent))) == TextBlock(["The tide.", "?"], "query")
    bad: Any
    for bad in (
        None, [], {}, {"texts": []}, {"texts": "abc", "use": "query"}, {**sent, "texts": [1]},
        {**sent, "use": "other"}, {**sent, "texts": ["x" * (17 << 20)]},
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            CODEC.decode_item(bad)


def test_vectors_of_another_size_or_not_finite_are_not_used() -> None:
    block = TextBlock(["The tide.", "The rope and the bell."])
    codec = EmbeddingCodec(dimension=4)
    right = np.array([[1, 0, 0, 0], [0, 1, 0, 0]], np.float32)
    sent = codec.decode_result(codec.encode_result(right, compress=False))
    np.testing.assert_array_equal(codec.check(block, sent, "w"), right)
    for bad in (right[:1], right * np.float32(np.nan)):
        with pytest.raises(InvalidInputError):
            codec.check(block, bad.tobytes(), "w")
