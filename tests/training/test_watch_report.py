"""A run's report: whole, safe, and drawn right."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from anyrig.errors import InvalidInputError
from anyrig.plots import (
    AxisUnit,
)
from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.curves import charts
from anyrig.training.watch.figures import Figures, RunEvent, Validation
from anyrig.training.watch.report import best_validation, page, report, shares, typical
from anyrig.training.watch.sinks import Told
from anyrig.training.watch.sinks.lines import Lines

NASTY = "<script>alert('1')</script> & \"x\" \u202e"


def figures(step: int, **changed: Any) -> Figures:
    base = Figures(
        step=step, epoch=1, loss=4.0 / step, rate=3e-4, step_s=0.05,
        phases={"data": 0.01, "forward": 0.01, "backward": 0.02}, samples=8, units=4096,
        samples_per_s=160.0, units_per_s=81920.0, epoch_s=2.0, elapsed_s=3.0, time_s=1000.0 + step,
        precision="bf16", micro_batch=4, num_micro=2,
    )  # fmt: skip
    return replace(base, **changed)


class Checked(HTMLParser):
    """Every tag is closed, and nothing is fetched or run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe")
        assert not any(name in ("src", "href") or name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(html: str) -> str:
    parser = Checked()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert not re.search(r"url\(|@import|https?://", html)
    assert not re.search(r"\bnan\b|\binf\b", "".join(re.findall(r"<svg.*?</svg>", html)))
    for drawing in re.findall(r"<svg.*?</svg>", html):
        ElementTree.fromstring(drawing)
    return " ".join(parser.text)


def story(num_steps: int) -> list[Told]:
    told: list[Told] = [
        RunEvent("start", "begun", 0, 0.0, 1.0, {"model": NASTY, "settings": {"batch": 32}})
    ]
    for step in range(1, num_steps + 1):
        odd = math.nan if step == 40 else 4.0 / step
        scale = 2.0 ** (16 - step % 3)
        told.append(figures(step, loss=odd, num_skipped=int(step == 7), scale=scale,
                            memory_peak_bytes=2**31, grad_norm=1.0, mfu=0.5))  # fmt: skip
        if step % 10 == 0:
            told.append(Validation(step, {"loss": 5.0 / step, NASTY: 0.5}, 1.0, 1.0))
    told.append(Alert("loss-nonfinite", NASTY, 40, NASTY))
    told.append(RunEvent("batch", NASTY, 20, 1.0, 1.0))
    return told


@pytest.mark.parametrize("num_steps", [0, 1, 2, 35, 3000])
def test_a_report_of_any_length_is_whole_and_safe(num_steps: int) -> None:
    html = page(story(num_steps), title=NASTY, unit=NASTY)
    text = checked(html)
    assert NASTY in text
    assert "settings.batch" in text
    if num_steps >= 35:
        for title in ("Loss", "Learning rate", "Gradient norm", "Step time by phase", "Throughput",
                      "Memory", "MFU", "Loss scale"):  # fmt: skip
            assert f"<h3>{title}" in html
        assert "50.0%" in text
    assert len(html) < 300_000


def test_it_is_written_beside_its_lines(tmp_path: Path) -> None:
    lines = Lines(tmp_path)
    for told in story(50):
        lines.take(told)
    assert report(tmp_path) == tmp_path / "report.html"  # while the run is still going
    lines.close()
    text = checked((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert tmp_path.name in text


def test_units_are_called_samples_only_where_they_are() -> None:
    told = [figures(1, samples=4, units=4), figures(2, samples=4, units=4)]
    assert "<em>samples, median</em>" in page(told, title="run")
    told = [figures(1, samples=4, units=256), figures(2, samples=4, units=256)]
    assert "<em>units, median</em>" in page(told, title="run")
    assert "<em>tokens, median</em>" in page(told, title="run", unit="tokens")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing to report"):
        report(tmp_path)


def test_summary_figures_are_right() -> None:
    steps = [figures(1), figures(2, step_s=0.15, num_steps=3, phases={"data": 0.1})]
    # 0.05 s and three times 0.15 s; data took 0.01 s and three times 0.1 s.
    assert shares(steps) == {
        "data": pytest.approx(0.31 / 0.5),
        "forward": pytest.approx(0.01 / 0.5),
        "backward": pytest.approx(0.02 / 0.5),
        "other": pytest.approx(0.16 / 0.5),
    }
    best = best_validation(
        [Validation(1, {"loss": 3.0}, 0, 0), Validation(2, {"loss": 2.0}, 0, 0),
         Validation(3, {"loss": math.nan}, 0, 0), Validation(4, {"accuracy": 1.0}, 0, 0)]
    )  # fmt: skip
    assert best is not None
    assert best.step == 2
    assert typical(iter([None, math.nan, 3.0, 1.0, 2.0])) == 2.0


def test_phases_are_stacked_up_to_the_step_time() -> None:
    (chart,) = (one for one in charts([figures(1), figures(2)], [], [], [], "tokens")
                if one.title.startswith("Step time"))  # fmt: skip
    tops = {series.name: series.points[0][1] for series in chart.series}
    assert tops == {
        "data": pytest.approx(0.01),
        "forward": pytest.approx(0.02),
        "backward": pytest.approx(0.04),
        "other": pytest.approx(0.05),
    }
    assert chart.series[0].name == "other"  # the highest is drawn first, under the others
    assert chart.unit == AxisUnit(1e-3, "ms")


def test_skipped_steps_are_marked_and_a_plain_scale_is_left_out() -> None:
    titles = [one.title for one in charts([figures(1), figures(2)], [], [], [], "tokens")]
    assert "Loss scale" not in titles
    skipped = [figures(1), figures(2, num_skipped=1)]
    (chart,) = (one for one in charts(skipped, [], [], [], "x") if one.title == "Loss scale")
    assert [mark.x for mark in chart.ticked] == [2]


def test_a_spoilt_run_of_any_length_stays_small() -> None:
    spoilt = [
        figures(step, loss=math.nan if step % 2 or step > 5_000 else 1.0, num_skipped=1)
        for step in range(1, 10_001)
    ]
    html = page(spoilt, title="spoilt")
    checked(html)
    assert len(html) < 300_000
