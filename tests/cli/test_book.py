"""`anyrig book` as a person meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyrig import Rig
from tests.conftest import ROOT, Anyrig
from tests.speech.gated_engine import install_gated_engine

EXAMPLE = ROOT / "examples" / "the-tide-clock.epub"
STORY = """CHAPTER I

The Clock

It was ten past nine when Mr. Hale opened the shop. "Good morning," said Anna.

Nobody spoke for a while after that.

CHAPTER II

The Tide

The tide came in at noon. It took the boat, the rope and the bell.
"""


@pytest.fixture
def story() -> Path:
    path = Path("story.txt")
    path.write_text(STORY, encoding="utf-8")
    return path


def book(anyrig: Anyrig, *words: str | Path, code: int = 0, **options: Any) -> Any:
    """The last event of a run with the tone engine; what it said of its failure otherwise."""
    done = anyrig("book", *map(str, words), "--engine", "tone", "--json", **options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if code == 0 else done.stderr


def test_a_text_becomes_an_m4b_with_chapters(anyrig: Anyrig, story: Path) -> None:
    import av

    told = book(anyrig, story)
    assert told["files"] == ["story.m4b"]
    with av.open("story.m4b") as file:
        titles = [chapter["metadata"]["title"] for chapter in file.chapters()]
        assert file.metadata["title"] == "story"
    assert titles == [chapter["title"] for chapter in told["chapters"]]
    assert len(titles) == 2
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_the_example_is_listed_with_words_and_lengths(anyrig: Anyrig) -> None:
    done = anyrig("book", str(EXAMPLE), "--list")
    assert done.returncode == 0, done.stderr
    assert "The Tide Clock by The anyrig authors" in done.stdout
    assert "not read (cover)" in done.stdout
    assert "a guess" in done.stdout
    listed = json.loads(anyrig("book", str(EXAMPLE), "--list", "--json").stdout)
    assert [row["number"] for row in listed["chapters"]] == list(range(1, 10))
    assert listed["chapters"][4]["level"] == 2
    assert listed["cover"] is True


def test_again_with_an_engine_that_repeats_itself_says_so_and_changes_the_pace(
    anyrig: Anyrig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = install_gated_engine(tmp_path / "plugin")
    Path(plugin["GATE_FILE"]).touch()
    monkeypatch.syspath_prepend(plugin["PYTHONPATH"])
    Path("note.txt").write_text("The tide came in at noon.", encoding="utf-8")
    order = ("book", "note.txt", "--json", "--engine")
    first = anyrig(*order, "gated", environment=plugin)
    again = anyrig(*order, "gated", "--again", "1:1", environment=plugin)
    assert (first.returncode, again.returncode) == (0, 0), again.stderr
    assert "repeats itself" not in first.stderr
    assert again.stderr.count("gated gives the same take for every seed: its pace is changed") == 1
    lengths = [json.loads(done.stdout.splitlines()[-1])["audio_s"] for done in (first, again)]
    assert lengths[0] != lengths[1]
    assert "repeats itself" not in anyrig(*order, "tone", "--again", "1:1").stderr


def test_segments_are_listed_under_the_numbers_that_again_takes(
    anyrig: Anyrig, story: Path
) -> None:
    done = anyrig("book", str(story), "--list", "--chapters", "2", "--engine", "tone")
    assert done.stdout.splitlines()[2].startswith("2:3 ")
    assert "The tide came in at noon." in done.stdout


def test_speakers_are_shown_and_nothing_is_made(anyrig: Anyrig, story: Path) -> None:
    done = anyrig("book", str(story), "--speakers", "--engine", "tone")
    assert "Anna" in done.stdout
    assert not Path("story.m4b").exists()


def test_samples_in_several_voices(anyrig: Anyrig, story: Path) -> None:
    done = anyrig("book", str(story), "--sample", "5s", "--voices", "tone,tono",
                  "--language", "en", "--engine", "tone", "--format", "wav", "--json")  # fmt: skip
    assert done.returncode == 2
    assert "tono" in done.stderr
    done = anyrig("book", str(story), "--sample", "5s", "--engine", "tone", "--format", "wav",
                  "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    sample = json.loads(done.stdout)["samples"][0]
    assert sample["audio_s"] == pytest.approx(5, abs=2)
    assert Path(sample["file"]).is_file()


def test_a_foreign_paragraph_is_refused_with_what_helps(anyrig: Anyrig) -> None:
    russian = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива. "
    Path("mixed.txt").write_text(f"{STORY * 3}\n{russian * 3}\n\n{STORY}", encoding="utf-8")
    said = book(anyrig, "mixed.txt", code=2)
    assert "1 in Russian" in said
    assert "--foreign read" in said
    assert "--language" not in said  # it decides for the book, not for one paragraph
    told = book(anyrig, "mixed.txt", "--foreign", "skip")
    assert told["omitted"]["foreign"] > 100


def test_passages_that_fail_are_told_to_programs(anyrig: Anyrig, story: Path) -> None:
    from anyrig.speech.prepare import compute_seed

    text = "The tide came in at noon."
    seeds = [compute_seed(text, 0) + number * 7919 for number in range(4)]
    bad = "bad=" + ",".join(f"{seed}:silence" for seed in seeds)
    done = anyrig("book", "story.txt", "--engine", "tone", "--json", "--set", bad)
    assert done.returncode == 1
    told, failed = map(json.loads, done.stdout.splitlines()[-2:])
    assert (told["event"], failed["event"]) == ("unfinished", "failed")
    assert [one["text"] for one in told["passages"]] == [text]
    assert text in done.stderr
    whole = book(anyrig, story, "--set", bad, "--allow-gaps")
    gaps = [(one["chapter"], one["segment"]) for one in whole["segments"] if one["gap"]]
    assert gaps == [(one["chapter"], one["segment"]) for one in told["passages"]]


def test_a_book_is_never_written_over_itself(anyrig: Anyrig) -> None:
    Path("story.m4b").write_text(STORY, encoding="utf-8")
    done = anyrig("book", "story.m4b", "--engine", "tone")
    assert done.returncode == 2
    assert Path("story.m4b").read_text(encoding="utf-8") == STORY


def test_a_folder_called_book_beside_the_output_does_no_harm(anyrig: Anyrig, story: Path) -> None:
    Path("x/book").mkdir(parents=True)
    assert book(anyrig, story, "-o", "x/full.m4b")["files"] == ["x/full.m4b"]
    assert book(anyrig, story, "--format", "mp3", "-o", "x/parts")["files"]
    assert not list(Path("x/book").iterdir())


def test_a_folder_in_the_place_of_the_captions_is_refused_before_the_work(
    anyrig: Anyrig, story: Path
) -> None:
    Path("x/full.srt").mkdir(parents=True)
    said = book(anyrig, story, "--captions", "srt", "-o", "x/full.m4b", code=2)
    assert "cannot write x/full.srt: it is a folder" in said


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_a_book_is_made_without_an_error_stream(story: Path) -> None:
    command = f"'{sys.executable}' -m anyrig book story.txt --engine tone 2>&-"
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0
    assert Path("story.m4b").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.epub",), "missing.epub"),
        (("story.txt", "-o", "story.mp3"), "m4b"),
        (("story.txt", "--chapters", "9"), "2 chapters"),
        (("story.txt", "--fresh", "--again", "1:1"), "--again"),
        (("story.txt", "--verify"), "source"),
        (("story.txt", "--cover", "no.jpg"), "cover"),
    ],
)
def test_bad_input_is_one_error_with_a_hint(
    anyrig: Anyrig, story: Path, words: tuple[str, ...], said: str
) -> None:
    done = anyrig("book", *words, "--engine", "tone")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in Path().iterdir()} <= {"story.txt", "home"}


def test_program_source_is_read_aloud_only_on_request(anyrig: Anyrig) -> None:
    Path("story.py").write_text("def add(a, b):\n    return a + b\n")
    done = anyrig("book", "story.py", "--list", "--engine", "tone")
    assert done.returncode == 2, done.stderr
    assert "story.py is program source" in done.stderr
    assert "--code speak" in done.stderr
    assert (
        anyrig("book", "story.py", "--list", "--engine", "tone", "--code", "speak").returncode == 0
    )


def test_a_store_that_cannot_be_opened_is_replaced_beside_the_book(
    anyrig: Anyrig, story: Path
) -> None:
    Path("nowhere").write_text("a file where the cache should be")
    done = anyrig("book", str(story), "--engine", "tone",
                  environment={"ANYRIG_CACHE_FOLDER": str(Path("nowhere").absolute())})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "beside the book" in done.stderr
    assert Path("story.m4b").is_file()
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_a_book_that_cannot_be_planned_leaves_no_folder(anyrig: Anyrig) -> None:
    Path("signs.txt").write_text("* * *\n\n???\n", encoding="utf-8")
    done = anyrig("book", "signs.txt", "-o", "deep/down/book.m4b")
    assert done.returncode == 2
    assert not Path("deep").exists()


def test_a_book_is_listed_among_the_jobs_once(anyrig: Anyrig, story: Path) -> None:
    for _ in range(2):
        anyrig("book", str(story), "-o", "story.m4b", "--engine", "tone")
    (job,) = Rig().jobs.list()
    assert (job.kind, job.state, job.client) == ("book", "done", "")
    assert isinstance(job.result, dict)
    assert job.result["files"] == [str(Path("story.m4b").absolute())]
    assert job.result["chapters"]
    # Another one has its own row, and nothing is queued.
    anyrig("book", str(story), "-o", "other.m4b", "--engine", "tone")
    assert [one.state for one in Rig().jobs.list()] == ["done", "done"]
