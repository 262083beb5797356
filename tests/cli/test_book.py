"""`anyrig book` as a person meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Anyrig

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


def test_lengths_are_no_guess_once_the_voice_was_measured(anyrig: Anyrig) -> None:
    source = Path("long.txt")
    source.write_text(STORY * 12, encoding="utf-8")
    assert (
        json.loads(anyrig("book", "long.txt", "--list", "--json", "--engine", "tone").stdout)[
            "measured"
        ]
        is False
    )
    made = book(anyrig, source)
    listed = json.loads(anyrig("book", "long.txt", "--list", "--json", "--engine", "tone").stdout)
    assert listed["measured"] is True
    assert listed["estimated_s"] == pytest.approx(made["audio_s"], rel=0.1)


def test_segments_are_listed_under_the_numbers_that_again_takes(
    anyrig: Anyrig, story: Path
) -> None:
    done = anyrig("book", str(story), "--list", "--chapters", "2", "--engine", "tone")
    assert done.stdout.splitlines()[2].startswith("2:3 ")
    assert "The tide came in at noon." in done.stdout


def test_chapters_titles_and_covers_are_as_asked_for(anyrig: Anyrig, story: Path) -> None:
    import av

    told = book(
        anyrig, story, "--chapters", "2", "--title", "Sea", "--author", "A. Writer",
        "--narrator", "N. Arrator", "--genre", "Sea stories", "-o", "out/",
    )  # fmt: skip
    assert told["files"] == ["out/story.m4b"]
    assert [chapter["number"] for chapter in told["chapters"]] == [2]
    with av.open("out/story.m4b") as file:
        assert file.metadata["title"] == "Sea"
        assert file.metadata["artist"] == "A. Writer"
        assert file.metadata["composer"] == "N. Arrator"
        assert file.metadata["genre"] == "Sea stories"


def test_a_file_for_each_chapter(anyrig: Anyrig, story: Path) -> None:
    told = book(anyrig, story, "--format", "flac", "-o", "chapters")
    assert len(told["files"]) == 2
    assert all(Path(name).suffix == ".flac" for name in told["files"])
    assert any(name.endswith(".m3u8") for name in told["beside"])


def test_what_is_made_is_kept_and_one_sentence_can_be_made_again(
    anyrig: Anyrig, story: Path
) -> None:
    first = book(anyrig, story)
    data = Path("story.m4b").read_bytes()
    second = book(anyrig, story)
    assert second["kept"] == len(first["segments"])
    assert Path("story.m4b").read_bytes() == data
    book(anyrig, story, "--again", "2:3")
    assert Path("story.m4b").read_bytes() != data
    assert "no segment" in book(anyrig, story, "--again", "2:99", code=2)
    assert "3:17" in book(anyrig, story, "--again", "two", code=2)


def test_a_lexicon_renders_again_only_what_it_touches(anyrig: Anyrig, story: Path) -> None:
    first = book(anyrig, story)
    Path("words.toml").write_text('[[say]]\nword = "Hale"\nsay = "Hail"\n', encoding="utf-8")
    second = book(anyrig, story, "--lexicon", "words.toml")
    assert len(first["segments"]) - second["kept"] == 1


def test_events_tell_how_far_it_is(anyrig: Anyrig, story: Path) -> None:
    done = anyrig("book", str(story), "--engine", "tone", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events][0] == "begin"
    assert events[-1]["event"] == "done"
    assert {event["stage"] for event in events if event["event"] == "progress"} == {
        "making", "writing",
    }  # fmt: skip


def test_without_a_terminal_the_progress_is_lines(anyrig: Anyrig, story: Path) -> None:
    done = anyrig("book", str(story), "--engine", "tone")
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr
    assert "chapter 1/2" in done.stderr
    assert done.stdout.startswith("story.m4b: ")
    assert "times real time" in done.stdout


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
    assert 3 < sample["audio_s"] < 12
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
    from anyrig.speech.prepare import seed_of

    text = "The tide came in at noon."
    seeds = [seed_of(text, 0) + number * 7919 for number in range(4)]
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


def test_a_name_with_a_point_gets_the_ending_of_a_book(anyrig: Anyrig, story: Path) -> None:
    assert book(anyrig, story, "-o", "Vol. 2")["files"] == ["Vol. 2.m4b"]


def test_estimates_follow_the_rate_and_what_is_left_out(anyrig: Anyrig, story: Path) -> None:
    def listed(*words: str) -> float:
        done = anyrig("book", "page.md", "--list", "--json", "--engine", "tone", *words)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        rests = 2.0 * len([row for row in told["chapters"] if row["spoken"]])  # without a pace
        return float(told["estimated_s"]) - rests

    code = "\n".join(f"    listing = {number}" for number in range(200))
    Path("page.md").write_text(f"# One\n\n{STORY}\n\n{code}\n", encoding="utf-8")
    assert listed("--rate", "2") == pytest.approx(listed() / 2, abs=0.2)
    assert listed("--code", "speak") > 2 * listed()
    begun = [
        json.loads(anyrig("book", "story.txt", "--engine", "tone", "--json", *words)
                   .stdout.splitlines()[0])["estimated_audio_s"] - 2 * 2.0
        for words in ((), ("--rate", "2"))
    ]  # fmt: skip
    assert begun[1] == pytest.approx(begun[0] / 2, abs=0.2)


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
        (("story.txt", "--format", "xyz"), "xyz"),
        (("story.txt", "--chapters", "9"), "2 chapters"),
        (("story.txt", "--sample", "soon"), "60s"),
        (("story.txt", "--captions", "ass"), "srt, vtt"),
        (("story.txt", "--bitrate", "much"), "64k"),
        (("story.txt", "--bitrate", "1k"), "bits a second"),
        (("story.txt", "--levels", "loud"), "levels"),
        (("story.txt", "--voices", "tone"), "--sample"),
        (("story.txt", "--fresh", "--again", "1:1"), "--again"),
        (("story.txt", "story.txt"), "one book"),
        (("story.txt", "--verify"), "source"),
        (("story.txt", "--notes", "sing"), "notes"),
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


def test_another_pace_for_one_role_renders_only_its_words(anyrig: Anyrig, story: Path) -> None:
    cast = Path("cast.toml")
    cast.write_text("[roles.Anna]\nvoice = 'tone'\nrate = 0.9\n", encoding="utf-8")
    first = book(anyrig, story, "--cast", cast)
    assert book(anyrig, story, "--cast", cast)["kept"] == len(first["segments"])
    cast.write_text("[roles.Anna]\nvoice = 'tone'\nrate = 1.1\n", encoding="utf-8")
    second = book(anyrig, story, "--cast", cast)
    assert len(second["segments"]) - second["kept"] == 1


def test_a_program_is_told_of_an_error_in_an_event(anyrig: Anyrig) -> None:
    Path("empty.txt").write_text("")
    done = anyrig("book", "empty.txt", "--json")
    assert done.returncode == 2
    event = json.loads(done.stdout)
    assert event["event"] == "failed"
    assert event["error"] in done.stderr
    assert event["hint"]


def test_a_book_that_cannot_be_planned_leaves_no_folder(anyrig: Anyrig) -> None:
    Path("signs.txt").write_text("* * *\n\n???\n", encoding="utf-8")
    done = anyrig("book", "signs.txt", "-o", "deep/down/book.m4b")
    assert done.returncode == 2
    assert not Path("deep").exists()
