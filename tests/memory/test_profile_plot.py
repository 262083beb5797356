"""The chart of memory and speed by batch size."""

from __future__ import annotations

from anyrig.memory.batch_size import BatchSizeResult, BatchTrial, plot_profile
from anyrig.units import GIB


def test_the_plot_holds_every_size_and_what_failed() -> None:
    tries = (
        BatchTrial(1, "ran", 3, 1.0, 0.1, 2 * GIB, 3 * GIB, GIB),
        BatchTrial(64, "ran", 3, 1.0, 0.5, 20 * GIB, 22 * GIB, GIB),
        BatchTrial(70, "out of memory", 1, 1.0),
    )
    text = plot_profile(BatchSizeResult(64, tries, "", 24 * GIB), "a <model>")
    assert "a &lt;model&gt;" in text
    assert text.count('class="dot') == 4
    assert text.count('class="mark severe"') == 2
    assert "largest 64, failed 70" in text
    assert "budget 24 GiB" in text
    unknown = plot_profile(
        BatchSizeResult(1, (BatchTrial(1, "ran", 3, 1.0, 0.1),), "", None), "one"
    )
    assert "not reported" in unknown
