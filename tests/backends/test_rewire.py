"""Models changed in their bytes still run, and show what was asked for."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from anyrig.backends import graph, rewire


def test_an_inner_value_becomes_an_output() -> None:
    model = graph.sweep_chain(4, 3)
    changed = onnxruntime.InferenceSession(
        rewire.with_outputs(model, ["v1", "v0"]), providers=["CPUExecutionProvider"]
    )
    assert [output.name for output in changed.get_outputs()] == ["result", "v1", "v0"]
    result, first, zeroth = changed.run(None, {"scale": np.array([2.0], np.float32)})
    assert result == -2.0
    assert first.tolist() == [-2.0] * 4
    assert zeroth.tolist() == [2.0] * 4


def test_other_outputs_take_the_place_of_its_own() -> None:
    chain = _one_graph(graph.sweep_chain(4, 3))
    changed = rewire.with_only_outputs(chain, ["v1", "v0"])
    made = onnxruntime.InferenceSession(changed, providers=["CPUExecutionProvider"])
    assert [output.name for output in made.get_outputs()] == ["v1", "v0"]
    first, zeroth = made.run(None, {"scale": np.array([2.0], np.float32)})
    assert first.tolist() == [-2.0] * 4
    assert zeroth.tolist() == [2.0] * 4
    # What only led to the old output is gone.
    assert rewire.values_of(changed, "Neg") == ["v1"]
    assert rewire.values_of(changed, "ReduceMax") == []


def _like(size: int) -> bytes:
    """`scale` spread over a vector, and noise of its shape added twice."""
    added = graph.node("RandomNormalLike", ["v0"], ["one"])
    again = graph.node("RandomNormalLike", ["v0"], ["two"])
    total = graph.node("Add", ["one", "two"], ["total"])
    nodes = b"".join(graph.message(1, node) for node in (added, again, total))
    return rewire.with_outputs(graph.sweep_chain(size, 1) + graph.message(7, nodes), ["total"])


def test_values_are_found_by_the_kind_of_their_node() -> None:
    assert rewire.values_of(graph.sweep_chain(4, 2), "Neg") == ["v1", "v2"]
    assert rewire.values_of(_like(4), "RandomNormalLike") == ["one", "two"]


def test_noise_comes_from_the_caller_and_goes_round() -> None:
    whole = _one_graph(_like(5))
    model, names = rewire.noise_from_outside(whole)
    assert names == ["anyrig.noise0", "anyrig.noise1"]
    made = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {
        "scale": np.array([2.0], np.float32),
        names[0]: np.array([1, 2, 3, 4, 5, 6, 7], np.float32),
        names[1]: np.array([10, 20], np.float32),
    }
    assert made.run(["total"], feeds)[0].tolist() == [11, 22, 13, 24, 15]


def test_a_model_without_dice_stays_as_it_is() -> None:
    model = graph.sweep_chain(4, 2)
    assert rewire.noise_from_outside(model) == (model, [])


def _one_graph(model: bytes) -> bytes:
    """The pieces of a model's graph in one, as models come from a file."""
    found = list(rewire._fields(model, 0, len(model)))
    pieces = b"".join(model[f.body : f.end] for f in found if f.field == 7)
    others = b"".join(model[f.start : f.end] for f in found if f.field != 7)
    return others + graph.message(7, pieces)


def test_a_whole_model_is_taken_for_one() -> None:
    rewire.check(graph.sweep_chain(4, 2))


@pytest.mark.parametrize("kept", [0, 1, 5, 40, -1])
def test_a_model_cut_off_is_damaged(kept: int) -> None:
    model = _one_graph(graph.sweep_chain(4, 2))[:kept]
    with pytest.raises(rewire.Damaged):
        rewire.check(model)


@pytest.mark.parametrize(
    "model", [b"\xff" * 40, b"\x07abc", b"<html></html>", b"\x3a\x04\x0a\x99ab"]
)
def test_other_bytes_are_damaged_and_nothing_else(model: bytes) -> None:
    with pytest.raises(rewire.Damaged):
        rewire.values_of(model, "Ceil")
    with pytest.raises(rewire.Damaged):
        rewire.noise_from_outside(model)
