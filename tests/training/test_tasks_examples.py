"""The examples learn: a few steps here, all of them in the slow tests."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from anyrig.plugins import load_class
from anyrig.training import Settings, Summary, Trainer
from anyrig.training.tasks import GROUP, TASKS, build
from examples.train.make_images import make

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "train"
MODULES = "language images diffusion config corpus tokens pictures"


def run(name: str, place: Path, steps: int, count: int = 40, **task: Any) -> tuple[Summary, float]:
    """What a run came to, and the mean loss of its last steps."""
    config = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    settings = Settings.of(config["train"])
    table = {**config["task"], **task}
    if table.get("data") == "shapes":
        make(place / "shapes", count)
        table["data"] = str(place / "shapes")
    built = build(table, FOLDER, place / "run", settings.seed)
    settings = dataclasses.replace(settings, steps=steps or settings.steps, validate_every=0)
    with Trainer.of(built, settings=settings, folder=place / "run", device="cpu") as trainer:
        summary = trainer.run()
        losses = [one.loss for one in trainer.history() if one.loss is not None]
    last = losses[-20:]
    return summary, sum(last) / len(last)


def test_the_language_model_leaves_its_first_guess(tmp_path: Path) -> None:
    summary, loss = run("language", tmp_path, 30, model="nano", sample=20)
    assert summary.steps == 30
    assert loss < 6.5
    assert summary.validation["perplexity"] < 900
    assert summary.made["sample"].startswith("On 5 March")


def test_the_classifier_tells_shapes_better_than_chance(tmp_path: Path) -> None:
    summary, loss = run("images", tmp_path, 30, model="convnet:nano", count=24)
    assert loss < 1.3
    assert set(summary.validation) >= {"loss", "accuracy"}
    assert json.loads((Path(summary.made["model"]) / "labels.json").read_text())["size"] == 32


def test_the_diffusion_model_says_more_than_nought(tmp_path: Path) -> None:
    summary, loss = run(
        "diffusion", tmp_path, 25, count=12, model="nano", samples=4, sample_steps=4
    )
    assert loss < 0.7
    assert Path(summary.made["samples"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_language_model_reaches_what_it_says(tmp_path: Path) -> None:
    _, loss = run("language", tmp_path, 0)
    assert loss < 0.8


@pytest.mark.slow
def test_the_classifier_reaches_what_it_says(tmp_path: Path) -> None:
    summary, loss = run("images", tmp_path, 0, count=200)
    assert loss < 0.1
    assert summary.validation["accuracy"] > 0.95


@pytest.mark.slow
def test_the_diffusion_model_reaches_what_it_says(tmp_path: Path) -> None:
    _, loss = run("diffusion", tmp_path, 0, count=200)
    assert loss < 0.12


@pytest.mark.parametrize("name", TASKS)
def test_every_kind_is_where_the_table_says(name: str) -> None:
    assert callable(load_class(name, TASKS, GROUP))


def test_naming_a_task_loads_no_library_before_it_is_used() -> None:
    names = ", ".join(f"anyrig.training.tasks.{name}" for name in MODULES.split())
    code = f"import sys, torch; import {names}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"PIL", "tokenizers", "transformers", "safetensors", "lxml"} & set(loaded)
