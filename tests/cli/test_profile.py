"""`anyrig profile` as a person meets it: real models on the CPU, mistakes, JSON, the plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyrig.backends.onnx_graph import GraphBuilder
from tests.conftest import Anyrig

QUICK = ("--no-bench", "--device", "cpu", "--length", "8", "--precision", "fp32")


def onnx_model(batch: int | None) -> bytes:
    """`y = x @ weight`, with an open first axis where no batch is given."""
    axes = ("batch" if batch is None else batch, 4)
    graph = GraphBuilder()
    graph.add_input("x", "float32", axes)
    graph.add_node("MatMul", ["x", graph.add_weight("weight", np.eye(4, dtype=np.float32))], "y")
    graph.add_output("y", "float32", axes)
    return graph.build().model


def test_the_built_in_model(anyrig: Anyrig) -> None:
    done = anyrig("profile", *QUICK, "--most", "3", "--plot", "plot.svg")
    assert done.returncode == 0, done.stderr
    head, budget, *rest = done.stdout.splitlines()
    assert head.startswith("training step with AdamW of a transformer")
    assert budget.startswith("Budget: ")
    assert any(line.split()[:1] == ["2"] for line in rest)
    assert "Largest batch: 3 (3 ran 3 steps and took" in done.stdout
    assert "3 is the requested maximum" in done.stdout
    assert "Fastest batch: " in done.stdout
    assert Path("plot.svg").read_text().startswith("<svg")


def test_a_budget_that_is_too_small_is_one_error(anyrig: Anyrig) -> None:
    done = anyrig("profile", *QUICK, "--memory-gb", "0.01")
    assert done.returncode == 3
    assert "batch size 1 does not fit: it took" in done.stderr
    assert "hint:" in done.stderr
    assert done.stdout == ""


def test_a_module_of_the_users_own(anyrig: Anyrig) -> None:
    Path("mine.py").write_text(
        "from torch import nn\n"
        "def model(): return nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))\n"
        "def nothing(): return 3\n"
        "def broken(): raise OSError('no weights')\n"
    )
    words = ("--no-bench", "--device", "cpu", "--shape", "6", "--tokens", "50", "--most", "2")
    done = anyrig("profile", "mine:model", *words)
    assert done.returncode == 0, done.stderr
    assert "of mine:model (input 6)" in done.stdout
    assert "returned int, not a torch module" in anyrig("profile", "mine:nothing", *words).stderr
    assert (
        "mine:broken failed: OSError: no weights" in anyrig("profile", "mine:broken", *words).stderr
    )
    wrong = anyrig("profile", "mine:model", *words[:-4], "--tokens", "99", "--most", "2")
    assert wrong.returncode == 2
    assert "failed: IndexError" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert "has no other" in anyrig("profile", "mine:other", *words).stderr
    assert "cannot import nowhere" in anyrig("profile", "nowhere:model", *words).stderr


def test_an_onnx_file(anyrig: Anyrig) -> None:
    Path("open.onnx").write_bytes(onnx_model(None))
    Path("fixed.onnx").write_bytes(onnx_model(1))
    Path("broken.onnx").write_bytes(b"no model")
    words = ("--no-bench", "--device", "cpu", "--most", "64")
    done = anyrig("profile", "open.onnx", *words)
    assert done.returncode == 0, done.stderr
    assert "forward pass of open.onnx" in done.stdout
    assert "Largest batch: 64" in done.stdout
    assert "through ONNX Runtime" in done.stdout
    assert "has a fixed batch size" in anyrig("profile", "fixed.onnx", *words).stderr
    assert "broken.onnx is not a valid ONNX file" in anyrig("profile", "broken.onnx", *words).stderr


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["nonsense"], "unknown model 'nonsense'", "MODULE:FUNCTION"),
        (["mine:model"], "needs the shape", "--shape"),
        (["--shape", "6"], "are for MODULE:FUNCTION", "--length"),
        (["--memory-gb", "1", "--memory-fraction", "0.5"], "were both given", "one of them"),
    ],
)
def test_a_mistake_is_one_error_with_a_hint(
    anyrig: Anyrig, words: list[str], message: str, hint: str
) -> None:
    done = anyrig("profile", "--no-bench", "--device", "cpu", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second, *rest = done.stderr.splitlines()
    assert message in first
    assert hint in second
    assert not rest
