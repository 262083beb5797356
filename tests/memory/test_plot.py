"""The plot of memory and speed."""

from __future__ import annotations

from anyrig.memory.fit import Fit
from anyrig.memory.plot import svg
from anyrig.memory.seek import Try
from anyrig.units import GIB


def test_the_plot_holds_every_size_and_what_failed() -> None:
    tries = (
        Try(1, "ran", 3, 1.0, 0.1, 2 * GIB, 3 * GIB, GIB),
        Try(64, "ran", 3, 1.0, 0.5, 20 * GIB, 22 * GIB, GIB),
        Try(70, "out of memory", 1, 1.0),
    )
    text = svg(Fit(64, tries, "", 24 * GIB), "a <model>")
    assert "a &lt;model&gt;" in text
    assert text.count("<circle") == 4
    assert text.count("✕") == 2
    assert "budget 24 GiB" in text
    silent = svg(Fit(1, (Try(1, "ran", 3, 1.0, 0.1),), "", None), "one")
    assert "nobody tells" in silent
