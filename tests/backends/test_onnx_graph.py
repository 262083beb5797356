"""Models edited as bytes still run."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from anyrig.backends import onnx_graph


def test_an_inner_value_becomes_an_output() -> None:
    model = onnx_graph.build_copy_chain(4, 3)
    changed = onnxruntime.InferenceSession(
        onnx_graph.add_outputs(model, ["v1", "v0"]), providers=["CPUExecutionProvider"]
    )
    assert [output.name for output in changed.get_outputs()] == ["result", "v1", "v0"]
    result, first, zeroth = changed.run(None, {"scale": np.array([2.0], np.float32)})
    assert result == -2.0
    assert first.tolist() == [-2.0] * 4
    assert zeroth.tolist() == [2.0] * 4


def test_outputs_are_replaced() -> None:
    chain = _one_graph(onnx_graph.build_copy_chain(4, 3))
    changed = onnx_graph.replace_outputs(chain, ["v1", "v0"])
    made = onnxruntime.InferenceSession(changed, providers=["CPUExecutionProvider"])
    assert [output.name for output in made.get_outputs()] == ["v1", "v0"]
    first, zeroth = made.run(None, {"scale": np.array([2.0], np.float32)})
    assert first.tolist() == [-2.0] * 4
    assert zeroth.tolist() == [2.0] * 4
    # Nodes that only led to the old output are gone.
    assert onnx_graph.find_node_outputs(changed, "Neg") == ["v1"]
    assert onnx_graph.find_node_outputs(changed, "ReduceMax") == []


def _like(size: int) -> bytes:
    """A vector of `scale`, and two random vectors of its shape that are added."""
    added = onnx_graph.encode_node("RandomNormalLike", ["v0"], "one")
    again = onnx_graph.encode_node("RandomNormalLike", ["v0"], "two")
    total = onnx_graph.encode_node("Add", ["one", "two"], "total")
    nodes = b"".join(onnx_graph.bytes_field(1, node) for node in (added, again, total))
    return onnx_graph.add_outputs(
        onnx_graph.build_copy_chain(size, 1) + onnx_graph.bytes_field(7, nodes), ["total"]
    )


def test_node_outputs_are_found_by_type() -> None:
    assert onnx_graph.find_node_outputs(onnx_graph.build_copy_chain(4, 2), "Neg") == ["v1", "v2"]
    assert onnx_graph.find_node_outputs(_like(4), "RandomNormalLike") == ["one", "two"]


def test_noise_is_an_input_that_is_repeated() -> None:
    whole = _one_graph(_like(5))
    model, names = onnx_graph.replace_noise(whole)
    assert names == ["anyrig.noise0", "anyrig.noise1"]
    made = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {
        "scale": np.array([2.0], np.float32),
        names[0]: np.array([1, 2, 3, 4, 5, 6, 7], np.float32),
        names[1]: np.array([10, 20], np.float32),
    }
    assert made.run(["total"], feeds)[0].tolist() == [11, 22, 13, 24, 15]


def test_a_model_without_noise_is_unchanged() -> None:
    model = onnx_graph.build_copy_chain(4, 2)
    assert onnx_graph.replace_noise(model) == (model, [])


def _one_graph(model: bytes) -> bytes:
    """Join the pieces of the graph, as in a model file."""
    found = list(onnx_graph._fields(model, 0, len(model)))
    pieces = b"".join(model[f.body : f.end] for f in found if f.field == 7)
    others = b"".join(model[f.start : f.end] for f in found if f.field != 7)
    return others + onnx_graph.bytes_field(7, pieces)


def test_a_whole_model_is_valid() -> None:
    onnx_graph.check_model(onnx_graph.build_copy_chain(4, 2))


@pytest.mark.parametrize("kept", [0, 1, 5, 40, -1])
def test_a_truncated_model_is_invalid(kept: int) -> None:
    model = _one_graph(onnx_graph.build_copy_chain(4, 2))[:kept]
    with pytest.raises(onnx_graph.InvalidOnnxError):
        onnx_graph.check_model(model)


@pytest.mark.parametrize(
    "model", [b"\xff" * 40, b"\x07abc", b"<html></html>", b"\x3a\x04\x0a\x99ab"]
)
def test_other_bytes_are_invalid(model: bytes) -> None:
    with pytest.raises(onnx_graph.InvalidOnnxError):
        onnx_graph.find_node_outputs(model, "Ceil")
    with pytest.raises(onnx_graph.InvalidOnnxError):
        onnx_graph.replace_noise(model)
