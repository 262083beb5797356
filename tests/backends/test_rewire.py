"""Models changed in their bytes still run, and show what was asked for."""

from __future__ import annotations

import numpy as np
import onnxruntime

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
