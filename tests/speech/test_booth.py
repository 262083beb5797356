"""A worker's booth: threads that say a line each change nothing."""

from __future__ import annotations

from dataclasses import replace

from anyrig.placement import Placement
from anyrig.speech.booth import Booth
from anyrig.speech.protocol import Line

TEXTS = [
    f"Number {number}, and then {'many more ' * (number % 5)}words, said Zbigniew Brzezinski."
    for number in range(12)
]


def test_lines_said_by_several_threads_are_those_of_one(on_cpu: Placement) -> None:
    lines = [Line(text, seed=number) for number, text in enumerate(TEXTS)]
    alone = Booth(on_cpu, engine="hibari")
    together = Booth(replace(on_cpu, threads=4), engine="hibari")
    expected = [alone.run([line])[0].data for line in lines]
    for _ in range(2):
        assert [recording.data for recording in together.run(lines)] == expected


def test_a_bad_take_in_one_thread_is_made_again(on_cpu: Placement) -> None:
    booth = Booth(
        replace(on_cpu, threads=4), engine="tone", options={"bad": "3:nan", "bad_word": "third"}
    )
    lines = [Line(text, seed=3) for text in ("The first.", "A second.", "The third.")]
    assert [recording.tries for recording in booth.run(lines)] == [1, 1, 2]
