"""The page of training as a person uses it: real runs, their curves while they grow."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server, environment_of
from tests.server.long_work import fits, fits_in_every_language, send, told

pytestmark = NEEDS
_CONFIG = """
[task]
kind = "language"
text = "harbour.txt"
model = {{ preset = "nano", width = 16 }}
context = 16
validation = 0.2

[train]
batch = 4
steps = {steps}
learning_rate = 3e-3
validate_every = 4
"""
_DRAWN = """
return [...document.querySelectorAll(`[data-curve=${arguments[0]}] svg path[fill=none]`)]
  .map((path) => (path.getAttribute('d') || '').split(/[LC]/).length)
  .reduce((most, one) => Math.max(most, one), 0);
"""


def _train(busy: Server, folder: Path, name: str, steps: int) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "harbour.txt").write_text(
        "The ferry waits for the tide, and the tide for none. " * 80
    )
    (folder / f"{name}.toml").write_text(_CONFIG.format(steps=steps))
    order = [sys.executable, "-m", "anyrig", "train", f"{name}.toml", "--no-bench", "--device=cpu"]
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            order, cwd=folder, env=environment_of(busy.home), stdout=log, stderr=log
        )


def _run(busy: Server, name: str) -> Any:
    found = [one for one in told(busy, "/runs")["runs"] if one["name"].startswith(name)]
    return found[-1] if found else None


def test_a_run_shows_its_curves(
    person: Browser, busy: Server, axe: str, tmp_path: Path
) -> None:  # fmt: skip
    process = _train(busy, tmp_path, "short", 12)
    assert process.wait(120) == 0, (tmp_path / "log.txt").read_text()
    run = _run(busy, "short")
    assert run["state"] == "finished"
    person.open(f"/training?run={run['id']}")
    view = f"[data-view='{run['id']}']"
    person.says("step 12 of 12", view)
    history = told(busy, f"/runs/{run['id']}/history")
    loss = history["rows"][-1]["loss"]
    assert f"{loss:.4g}" in person.find("[data-curve=loss]").text
    curves = ("loss", "rate", "memory", "speed")
    person.until(lambda: all(person.script(_DRAWN, curve) >= 12 for curve in curves))
    label = person.find("[data-curve=loss] [role=img]").get_attribute("aria-label")
    assert f"{loss:.4g}" in str(label)
    assert "Validation" in person.find("[data-curve=loss]").text
    for curve, unit in (("loss", ""), ("memory", "MiB"), ("speed", "ms")):
        axes = person.find(f"[data-curve={curve}] svg").text
        assert "step" in axes
        assert unit in axes
    person.find(f"[data-sample='{run['id']}']")
    report = busy.client.get(str(person.find("[data-do=report]").get_attribute("href")))
    assert report.headers["content-type"].startswith("text/html")
    assert "<svg" in report.text
    fits(person, axe)
    fits_in_every_language(person)


def test_curves_grow_while_it_learns(person: Browser, busy: Server, tmp_path: Path) -> None:
    _train(busy, tmp_path / "first", "before", 4).wait(120)
    process = _train(busy, tmp_path / "second", "long", 100_000)
    try:
        person.open("/training")
        person.until(lambda: (found := _run(busy, "long")) and found["step"] > 5)
        run = _run(busy, "long")
        person.click(f"[data-run='{run['id']}']")
        person.find(f"[data-view='{run['id']}'] .badge", "Running")
        drawn = person.until(lambda: person.script(_DRAWN, "loss"))
        person.until(lambda: person.script(_DRAWN, "loss") > drawn)
        other = _run(busy, "before")
        person.click(f"[data-run='{other['id']}']")
        person.find(f"[data-view='{other['id']}'] .badge", "Done")
        person.click(f"[data-run='{run['id']}']")
        process.send_signal(signal.SIGINT)
        process.wait(60)
        person.find(f"[data-view='{run['id']}'] .badge", "Stopped")
        assert _run(busy, "long")["state"] == "stopped"
        person.says("anyrig train --resume", f"[data-view='{run['id']}']")
    finally:
        process.kill()
        process.wait()


def test_a_ready_made_run_is_started_and_stopped(
    person: Browser, busy: Server, axe: str, tmp_path: Path
) -> None:
    text = tmp_path / "chronicle.txt"
    text.write_text("The ferry waits for the tide, and the tide for none. " * 400)
    person.open("/training")
    send(person, text)
    person.until(lambda: person.find("[name=train-file] option:checked").text == text.name)
    assert person.find("[name=steps]").get_attribute("value") == "400"
    person.write("[name=steps]", "100000")
    person.click("[data-do=train]")
    person.toast("The run is queued")
    run = person.until(lambda: _run(busy, "language"), 300)
    view = f"[data-view='{run['id']}']"
    person.click(f"[data-run='{run['id']}']")
    person.until(lambda: "left" in person.find(view).text, 300)
    fits(person, axe)
    person.size(1440)
    person.click(f"{view} [data-do=stop]")
    person.find(".ask[open] h2", "Stop training “language”?")
    person.click(".ask[open] [data-ask=yes]")
    person.find(f"{view} .badge", "Stopped")
    assert _run(busy, "language")["state"] == "stopped"
    person.find(f"{view} [data-do=resume]")
