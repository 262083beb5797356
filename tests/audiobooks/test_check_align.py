"""Differences of two rows of words are found in place, and fast enough for any book."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from anyrig.audiobooks.check_align import Gap, gaps, pairs
from anyrig.audiobooks.check_hear import sampled, stretches
from anyrig.audiobooks.check_passages import Compared, Row, compare, moved

ALICE = Path(__file__).parent.parent / "texts" / "alice.txt"


def words() -> list[str]:
    return ALICE.read_text(encoding="utf-8").lower().split()


def row(text: str, segments: bool = False) -> Row:
    """What should be heard has a segment for each sentence; what was has a word each 0.4 s."""
    made, sentence = Row(), 0
    for at, word in enumerate(text.split()):
        made.add(word, (0, sentence) if segments else (0.4 * at, 0.4 * at + 0.4), "en")
        sentence += word.endswith((".", "!", "?"))
    return made


TEXT = (
    "The harbour lay quiet under a thin grey mist. Two fishermen were mending their nets. "
    "A white dog slept in the shade of an empty boat. They paid $3.50 for it in 1897. "
    "Nobody had seen the keeper of the lighthouse since Tuesday. Then a bell rang far away."
)


def against(heard: str, *, first: bool = True, last: bool = True) -> Compared:
    return compare(row(TEXT, segments=True), row(heard), first=first, last=last)


def test_equal_rows_have_no_gaps() -> None:
    text = words()
    assert gaps(text, text) == []
    assert gaps([], []) == []
    assert gaps(["a", "b"], []) == [Gap(0, 2, 0, 0)]
    assert gaps([], ["a"]) == [Gap(0, 0, 0, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_equal_words_in_order_and_nearly_all_of_them(seed: int) -> None:
    chance = random.Random(seed)
    text = words()
    heard = [word for word in text if chance.random() > 0.02]
    heard = [word if chance.random() > 0.03 else f"{word}x" for word in heard]
    found = pairs(text, heard)
    assert all(text[i] == heard[j] for i, j in found)
    assert all(a < c and b < d for (a, b), (c, d) in zip(found, found[1:], strict=False))
    assert len(found) > 0.9 * len(text)


def test_what_is_cut_out_and_put_twice_is_found_in_place() -> None:
    text = words()
    cut, twice = gaps(text, text[:500] + text[520:3000] + text[2990:])
    assert (cut.i1 - cut.i0, cut.j1 - cut.j0, twice.i1 - twice.i0) == (20, 0, 0)
    assert twice.j1 - twice.j0 == 10
    assert abs(cut.i0 - 500) <= 2
    assert 2988 <= twice.i0 <= 3000


def test_rows_with_nothing_in_common_stay_apart() -> None:
    one, other = [f"a{n}" for n in range(9000)], [f"b{n}" for n in range(9000)]
    assert gaps(one, other) == [Gap(0, 9000, 0, 9000)]


def test_what_is_heard_well_has_no_passages() -> None:
    found = against(TEXT.replace("$3.50", "three dollars and fifty cents").replace("grey", "gray"))
    assert found.passages == ()
    assert found.errors == 0
    slips = TEXT.replace("fishermen", "fisher men").replace("mist", "midst").replace("nets", "net")
    assert against(slips).passages == ()
    assert 1 <= against(slips).errors <= 3


def test_missing_doubled_and_changed_sentences() -> None:
    sentences = TEXT.replace(". ", ".|").split("|")
    found = against(" ".join(sentences[:2] + sentences[3:])).passages
    assert [(one.kind, one.segments) for one in found] == [("missing", ((0, 2),))]
    assert found[0].said == sentences[2]
    assert found[0].start_s == pytest.approx(0.4 * 15, abs=0.5)
    found = against(" ".join([*sentences[:3], *sentences[2:]])).passages
    assert [(one.kind, one.segments) for one in found] == [("doubled", ((0, 2),))]
    other = "A large horse stood under that tree and ate some grass."
    found = against(" ".join([*sentences[:2], other, *sentences[3:]])).passages
    assert [(one.kind, one.segments) for one in found] == [("wrong", ((0, 2),))]
    found = against(" ".join([*sentences[:2], other, *sentences[2:]])).passages
    assert [one.kind for one in found] == ["extra"]
    assert found[0].heard == other


def test_two_sentences_in_the_wrong_order_are_one_passage() -> None:
    sentences = TEXT.replace(". ", ".|").split("|")
    sentences[1], sentences[2] = sentences[2], sentences[1]
    found = moved(list(against(" ".join(sentences)).passages))
    assert [one.kind for one in found] == ["moved"]
    assert found[0].segments in (((0, 1),), ((0, 2),))


def test_the_first_and_the_last_sentence_are_missed_too() -> None:
    sentences = TEXT.replace(". ", ".|").split("|")
    assert [one.segments for one in against(" ".join(sentences[1:])).passages] == [((0, 0),)]
    assert [one.segments for one in against(" ".join(sentences[:-1])).passages] == [((0, 5),)]
    middle = against(" ".join(sentences[1:-1]), first=False, last=False)
    assert middle.passages == ()
    assert middle.words == len(row(" ".join(sentences[1:-1])).words)


def test_a_stretch_is_found_in_a_long_text_or_is_lost() -> None:
    text = ALICE.read_text(encoding="utf-8").split()
    said = row(" ".join(text), segments=True)
    heard = row(" ".join(text[4000:4030] + text[4045:4090]))
    found = compare(said, heard, first=False, last=False)
    assert [one.kind for one in found.passages] == ["missing"]
    assert found.passages[0].said == " ".join(text[4030:4045])
    strange = row("Nothing of this was ever written by anybody in the whole of that little book")
    assert compare(said, strange, first=False, last=False).lost


def test_chinese_is_compared_by_letters() -> None:
    said, heard = Row(), Row()
    said.add("今天天气很好我们去公园散步吧。", (0, 0), "zh")
    heard.add("今天天气很好", (0.0, 2.0), "zh")
    found = compare(said, heard)
    assert [(one.kind, one.said) for one in found.passages] == [("missing", "我们去公园散步吧")]
    assert found.errors == 8


def test_stretches_are_cut_in_pauses() -> None:
    quiet = [(float(at), at + (0.6 if at % 20 == 0 else 0.2)) for at in range(3, 200, 1)]
    made = stretches(quiet, 0.0, 200.0)
    assert made[0][0] == 0.0
    assert made[-1][1] == 200.0
    assert all(a[1] == b[0] for a, b in zip(made, made[1:], strict=False))
    assert all(end - start <= 27.0 for start, end in made)
    assert [end for _, end in made][:3] == pytest.approx([20.3, 40.3, 60.3])
    assert stretches([], 0.0, 60.0) == [(0.0, 27.0), (27.0, 54.0), (54.0, 60.0)]


def test_a_sample_is_spread_and_always_the_same() -> None:
    cut = [(20.0 * at, 20.0 * at + 20) for at in range(100)]
    picked = sampled(cut, 200.0, "0:1")
    assert picked == sampled(cut, 200.0, "0:1")
    assert picked != sampled(cut, 200.0, "1:1")
    assert [at // 10 for at in picked] == list(range(10)), "one of each tenth"
    assert sampled(cut[:1], 0.0, "0:1") == [0]
    assert sampled(cut, 1e9, "0:1") == list(range(100))


def test_a_number_that_was_heard_is_read_as_the_text_reads_it() -> None:
    said = Row()
    for word in "in nineteen eighty seven he paid one thousand dollars".split():
        said.add(word, (0, 0), "en")
    heard = said.beside()
    for at, word in enumerate("in 1987, he paid $1000".split()):
        heard.add(word, (at, at + 1), "en")
    assert heard.words == said.words
    plain = Row()
    plain.add("1987", (0, 1), "en")
    assert plain.words[0] == "one"
