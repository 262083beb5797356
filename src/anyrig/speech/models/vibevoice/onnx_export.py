"""VibeVoice-Realtime as ONNX graphs, exported by torch.onnx from its published weights.

    python -m anyrig.speech.models.vibevoice.onnx_export WEIGHTS FOLDER FORMAT

`onnx_graphs.py` runs it. One part of the model is in memory at a time. A graph gets its name when
it is whole, so that a process that was killed leaves the rest for the next one. All inputs and
outputs are fp32 in every format, and none is an integer: what a graph computes are products, norms
and softmaxes, which all providers of ONNX Runtime have.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyrig.speech.models.vibevoice.checkpoint import (
    RealtimeShape,
    TextShape,
    read_config,
    read_realtime_shape,
)
from anyrig.speech.models.vibevoice.codec import LazyWeights
from anyrig.speech.models.vibevoice.model import (
    DiffusionHead,
    SpeechLanguageModel,
    open_weights,
    run_mlp,
)
from anyrig.speech.models.vibevoice.onnx_graphs import GRAPHS, TIMES_FILE, WeightFormat
from anyrig.speech.models.vibevoice.operations import split_heads
from anyrig.speech.models.vibevoice.realtime_model import (
    TEXT,
    EndClassifier,
    FrameDecoder,
    rename_weights,
)
from anyrig.speech.models.vibevoice.solver import TRAINED_STEPS

_OPSET = 20
_BLOCK = 32
"""Weights that share a scale in int8."""
_INT8_COMPUTE = 4
"""MatMulNBits' `accuracy_level` that multiplies int8 by int8."""
_LOGGERS = ("torch.export", "torch.onnx", "torch.fx", "onnxscript", "onnx_ir")
Dimensions = Mapping[int, str]


# -- the parts of the model ------------------------------------------------------------------------


class _LanguageStep(nn.Module):
    """Some more inputs of each row, given the keys and values of the places before.

    Args:
        finish: makes the outputs of the last layer's.
    """

    def __init__(
        self, language: SpeechLanguageModel, finish: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> None:
        super().__init__()
        self.language, self.finish = language, finish

    def forward(
        self, inputs: Tensor, cosine: Tensor, sine: Tensor, past_mask: Tensor, new_mask: Tensor,
        *past: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        shape, dtype = self.language.shape, self.language.layers[0].qkv.dtype
        rows, count, _ = inputs.shape
        group, size = shape.heads // shape.kv_heads, shape.head_dim
        rotary = cosine[:, :, None].to(dtype), sine[:, :, None].to(dtype)
        past_mask = past_mask[:, None, None]
        x, new = inputs.to(dtype), []
        for layer, key_before, value_before in zip(
            self.language.layers, past[::2], past[1::2], strict=True
        ):
            normed = F.rms_norm(x, x.shape[-1:], layer.norm, shape.eps)
            heads = F.linear(normed, layer.qkv, layer.qkv_bias).view(rows, count, -1, size)
            query, key, value = split_heads(heads, shape.kv_heads, rotary)
            key, value = key.transpose(1, 2), value.transpose(1, 2)
            query = query.view(rows, count, shape.kv_heads, group, size) * size**-0.5
            queries = query.permute(0, 2, 3, 1, 4).reshape(rows, shape.kv_heads, -1, size)
            seen = queries @ key_before.to(dtype).transpose(2, 3)
            fresh = queries @ key.transpose(2, 3)
            fresh = fresh.view(rows, shape.kv_heads, group, count, count) + new_mask
            scores = (seen + past_mask, fresh.view(rows, shape.kv_heads, -1, count))
            shares = torch.softmax(torch.cat(scores, -1), -1).to(dtype)
            num_seen = key_before.shape[2]
            attended = shares[..., :num_seen] @ value_before.to(dtype)
            attended = attended + shares[..., num_seen:] @ value
            attended = attended.view(rows, shape.kv_heads, group, count, size)
            attended = attended.permute(0, 3, 1, 2, 4).reshape(rows, count, -1)
            x = x + F.linear(attended, layer.out)
            x = x + run_mlp(layer, F.rms_norm(x, x.shape[-1:], layer.mlp_norm, shape.eps))
            new.append(torch.stack((key, value)))
        if self.language.norm is not None:
            x = F.rms_norm(x, x.shape[-1:], self.language.norm, shape.eps)
        return (*(one.float() for one in self.finish(x)), torch.stack(new).float())


class _Condition(nn.Module):
    def __init__(self, head: DiffusionHead, dtype: torch.dtype) -> None:
        super().__init__()
        self.head, self.dtype = head, dtype

    def forward(self, hidden: Tensor, times: Tensor) -> tuple[Tensor]:
        return (self.head.modulate(hidden.to(self.dtype), times.to(self.dtype)).float(),)


class _HeadStep(nn.Module):
    def __init__(self, head: DiffusionHead, dtype: torch.dtype) -> None:
        super().__init__()
        self.head, self.dtype = head, dtype

    def forward(self, latent: Tensor, modulation: Tensor) -> tuple[Tensor]:
        return (self.head.predict(latent, modulation.to(self.dtype)).float(),)


class _FrameStep(nn.Module):
    def __init__(self, frames: FrameDecoder, dtype: torch.dtype) -> None:
        super().__init__()
        self.frames, self.dtype = frames, dtype

    def forward(self, latents: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        audio, after = self.frames.decode(latents, state.to(self.dtype))
        return audio.float(), after.float(), self.frames.connect(latents).float()


@dataclass(frozen=True)
class GraphPart:
    """A module to export, with an example of each input."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    dynamic: Mapping[str, Dimensions]
    """Sizes that vary, by input."""
    outputs: Sequence[str]


def build_part(name: str, shape: RealtimeShape, weights: LazyWeights) -> GraphPart:
    """One of `GRAPHS`.

    Args:
        weights: of the whole model; only those of the part are read.
    """
    inner, hidden, latent = weights.under("model"), shape.text.hidden, shape.codec.latent
    rows, steps = 2, 3
    if name == "text":
        kind = inner["tts_input_types.weight"][TEXT]
        language = SpeechLanguageModel(shape.text, inner.under("language_model"), norm=False)
        return _build_language(language, lambda x: (x + kind,), ("speech_inputs",))
    if name == "speech":
        end = EndClassifier(weights.under("tts_eos_classifier"))
        language = SpeechLanguageModel(shape.speech, inner.under("tts_language_model"))
        return _build_language(language, lambda x: (x, end(x)), ("hidden", "end"))
    if name == "frame":
        frames = FrameDecoder(shape, inner)
        inputs = {"latents": torch.randn(rows, latent), "state": frames.decoder.zero_state(rows)}
        inputs["state"] = inputs["state"].float()
        return GraphPart(
            _FrameStep(frames, weights.dtype), inputs, dict.fromkeys(inputs, {0: "rows"}),
            ("audio", "state_after", "speech_inputs"),
        )  # fmt: skip
    head = DiffusionHead(shape.head, inner.under("diffusion_head"), 1)
    if name == "condition":
        inputs = {
            "hidden": torch.randn(2 * rows, hidden), "times": torch.randn(steps, 2 * rows, hidden),
        }  # fmt: skip
        dynamic = {"hidden": {0: "branches"}, "times": {0: "steps", 1: "branches"}}
        return GraphPart(_Condition(head, weights.dtype), inputs, dynamic, ("modulation",))
    wide = (3 * shape.head.layers + 2) * hidden
    inputs = {"latent": torch.randn(rows, latent), "modulation": torch.randn(2 * rows, wide)}
    dynamic = {"latent": {0: "rows"}, "modulation": {0: "branches"}}
    return GraphPart(_HeadStep(head, weights.dtype), inputs, dynamic, ("velocity",))


def _build_language(
    language: SpeechLanguageModel,
    finish: Callable[[Tensor], tuple[Tensor, ...]],
    outputs: Sequence[str],
) -> GraphPart:
    shape: TextShape = language.shape
    rows, count, span = 2, 3, 7
    inputs = {
        "inputs": torch.randn(rows, count, shape.hidden),
        "cosine": torch.randn(rows, count, shape.head_dim),
        "sine": torch.randn(rows, count, shape.head_dim),
        "past_mask": torch.zeros(rows, span),
        "new_mask": torch.zeros(count, count),
    }
    dynamic: dict[str, Dimensions] = {
        **dict.fromkeys(("inputs", "cosine", "sine"), {0: "rows", 1: "count"}),
        "past_mask": {0: "rows", 1: "span"},
        "new_mask": {0: "count", 1: "count"},
    }
    for layer in range(shape.layers):
        for name in (f"key_{layer}", f"value_{layer}"):
            inputs[name] = torch.randn(rows, shape.kv_heads, span, shape.head_dim)
            dynamic[name] = {0: "rows", 2: "span"}
    return GraphPart(_LanguageStep(language, finish), inputs, dynamic, (*outputs, "new"))


# -- writing ---------------------------------------------------------------------------------------


def export_graphs(
    folder: Path, graphs: Path, kind: WeightFormat, on_progress: Callable[[str], None]
) -> None:
    """Write the graphs of a folder of weights that are not there yet."""
    shape = read_realtime_shape(read_config(folder))
    dtype = torch.float16 if kind == "fp16" else torch.float32
    weights = rename_weights(open_weights(folder, torch.device("cpu"), dtype))
    for number, name in enumerate(GRAPHS):
        target = graphs / f"{name}.onnx"
        if not target.is_file():
            on_progress(f"Converting to ONNX: {name}, {number + 1} of {len(GRAPHS)}")
            write_graph(build_part(name, shape, weights), target, kind)
    if not (graphs / TIMES_FILE).is_file():
        head = DiffusionHead(shape.head, weights.under("model.diffusion_head"), 1)
        times = head.embed_times(range(TRAINED_STEPS)).float().numpy()
        with _write_aside(graphs / TIMES_FILE) as aside:
            np.save(aside, times)


def write_graph(part: GraphPart, target: Path, kind: WeightFormat) -> None:
    """Export a part to a file, its weights to one beside it."""
    data = f"{target.name}.data"
    with _write_aside(target) as aside:
        model = _export(part)
        if kind == "int8":
            model = _quantize(model)
        onnx.save_model(
            model, aside, save_as_external_data=True, location=data, size_threshold=1024
        )
        os.replace(aside.parent / data, target.parent / data)


@contextlib.contextmanager
def _write_aside(target: Path) -> Iterator[Path]:
    """A path for a file that gets its name when the block succeeds."""
    for left in target.parent.glob(f".{target.name}.*"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as aside:
        yield Path(aside) / target.name
        os.replace(Path(aside) / target.name, target)


def _export(part: GraphPart) -> onnx.ModelProto:
    shapes = [dict(part.dynamic.get(name, {})) for name in part.inputs]
    names = list(part.inputs)
    if isinstance(part.module, _LanguageStep):  # keys and values are one parameter
        first = names.index("key_0")
        shapes = [*shapes[:first], tuple(shapes[first:])]  # type: ignore[list-item]
    with torch.inference_mode(), _quiet():
        program: Any = torch.onnx.export(
            part.module, tuple(part.inputs.values()), dynamo=True, dynamic_shapes=tuple(shapes),
            input_names=names, output_names=list(part.outputs), opset_version=_OPSET,
            external_data=False, verbose=False,
        )  # fmt: skip
    model: onnx.ModelProto = program.model_proto
    _transpose_weights(model.graph)
    for one in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        del one.metadata_props[:]  # where in the source each node comes from
    del model.graph.value_info[:]
    return model


def _transpose_weights(graph: onnx.GraphProto) -> None:
    """Make each product with a weight a MatMul, which quantizing needs, and its weight one that
    need not be transposed whenever the graph is loaded.
    """
    weights = {one.name: one for one in graph.initializer if len(one.dims) == 2}
    uses = Counter(name for node in graph.node for name in node.input)

    def transpose(name: str, transposed: str) -> None:
        values = onnx.numpy_helper.to_array(weights[name]).T
        if uses[name] == 1:
            weights[name].ClearField("raw_data")  # a model is never in memory twice
        graph.initializer.append(
            onnx.numpy_helper.from_array(np.ascontiguousarray(values), transposed)
        )

    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type == "Transpose" and node.input[0] in weights:
            transpose(node.input[0], node.output[0])
        elif node.op_type == "Gemm" and node.input[1] in weights:
            transpose(node.input[1], f"{node.output[0]}.weight")
            nodes += _split_gemm(node)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input} | {one.name for one in graph.output}
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name not in used:
            del graph.initializer[index]


def _split_gemm(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A Gemm with a transposed weight as MatMul and Add."""
    settings = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    assert settings.pop("transB", 0) == 1, settings
    assert all(settings.pop(name, 1.0) == 1.0 for name in ("alpha", "beta")), settings
    assert not settings.pop("transA", 0), settings
    output = node.output[0]
    product = output if len(node.input) == 2 else f"{output}.product"
    found = [onnx.helper.make_node("MatMul", [node.input[0], f"{output}.weight"], [product])]
    if len(node.input) > 2:
        found.append(onnx.helper.make_node("Add", [product, node.input[2]], [output]))
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's messages for its own developers."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        yield


def _quantize(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights of products as int8, with a scale for each block of them."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(
        model, bits=8, block_size=_BLOCK, is_symmetric=True, accuracy_level=_INT8_COMPUTE
    )
    quantizer.process()
    quantized: onnx.ModelProto = quantizer.model.model
    return quantized


def main() -> int:
    from anyrig.backends.process import claim_stdio

    _, out = claim_stdio()
    folder, graphs, kind = sys.argv[1:]

    def report(message: str) -> None:
        out.write(f"{message}\n".encode())
        out.flush()

    export_graphs(Path(folder), Path(graphs), kind, report)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
