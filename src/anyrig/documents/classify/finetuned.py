"""A fine-tuned classifier of transformers, in a folder: what it is, found without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.documents.classify.figures import Kind
from anyrig.documents.model_folder import count_positions, find_onnx_file, read_config
from anyrig.documents.tokenizer import read_max_tokens
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Workload
from anyrig.work.engine import EngineFactory

if TYPE_CHECKING:
    from anyrig.devices.machine import Library
    from anyrig.documents.engine import TextEngine
    from anyrig.documents.networks import Network
    from anyrig.documents.protocol import Matrix, TextBlock
    from anyrig.documents.tokenizer import TextWindows
    from anyrig.placement import Placement

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
            "pytorch_model.bin.index.json")  # fmt: skip
_OVERLAP = 32
_HINT = "Pass a folder saved by transformers: config.json with id2label, tokenizer.json, weights."


@dataclass(frozen=True)
class FineTuned:
    """A model that tells labels by itself."""

    name: str
    folder: Path
    labels: tuple[str, ...]
    kind: Kind
    longest: int
    """Tokens of a window."""
    pad: int | None
    """The token that fills short rows; None when it has none, and rows go one by one."""
    graph: Path | None = None
    """Its ONNX file, where there is one."""
    weights: bool = True
    """Whether torch can run it."""
    weights_bytes: int = 0

    calibrated = False

    def need(self) -> Workload:
        """What its workers ask for."""
        libraries: tuple[Library, ...] = ("torch",) if self.weights else ()
        libraries += ("onnx",) if self.graph is not None else ()
        return Workload(
            name=f"the classifier {self.name}",
            libraries=libraries,
            precisions=("bf16", "fp16", "fp32") if self.weights else ("fp32",),
            worker_bytes=self.weights_bytes * 2 + (100 << 20),
        )

    def recipe(self) -> EngineFactory:
        """How a worker makes its engine."""
        return EngineFactory(
            "anyrig.documents.classify.finetuned:open_engine", {"model": self},
            f"classify {self.name}", "2",
        )  # fmt: skip


class LabelPrediction(NamedTuple):
    """What a model says of a text."""

    probabilities: tuple[float, ...]
    window: tuple[int, int]
    """Where the window that speaks most for the likeliest label begins and ends."""
    window_probability: float
    num_windows: int


class SequenceHead:
    """The probabilities of a text's labels: the mean of its windows, weighed by their tokens."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def join(self, block: TextBlock, windows: TextWindows, rows: Matrix) -> list[LabelPrediction]:
        import numpy as np

        from anyrig.documents.classify.figures import probabilities

        each = probabilities(rows.astype(np.float64), self._kind)
        found = []
        for number in range(len(block.texts)):
            own = np.flatnonzero(windows.owners == number)
            mean = np.average(each[own], axis=0, weights=np.maximum(1, windows.lengths[own]))
            likeliest = int(mean.argmax())
            best = int(own[each[own, likeliest].argmax()])
            spans = [span for span in windows.encodings[best].offsets if span[1] > span[0]]
            place = (spans[0][0], spans[-1][1]) if spans else (0, 0)
            shares = tuple(float(share) for share in mean)
            found.append(LabelPrediction(shares, place, float(each[best, likeliest]), len(own)))
        return found


def open_engine(placement: Placement, *, model: FineTuned) -> TextEngine:
    """The engine of a fine-tuned classifier on a device's backend."""
    from anyrig.documents.engine import TextEngine
    from anyrig.documents.networks import OnnxNetwork, TransformersNetwork, open_onnx

    if placement.backend.library == "torch":
        network: Network = TransformersNetwork(
            placement, model.folder, head="sequence", pad=model.pad
        )
    else:
        assert model.graph is not None
        network = OnnxNetwork(open_onnx(placement), model.graph, pad=model.pad)
    tokenizer = {
        "file": model.folder / "tokenizer.json", "longest": model.longest,
        "overlap": min(_OVERLAP, (model.longest - 2) // 4), "offsets": True,
    }  # fmt: skip
    return TextEngine(network, SequenceHead(model.kind), tokenizer=tokenizer)


def find_classifier(folder: Path) -> FineTuned:
    """The classifier of a folder; InvalidInputError when it is none."""
    config = _read_config(folder)
    names = _labels(config)
    weights = [folder / file for file in _WEIGHTS if (folder / file).is_file()]
    graph = find_onnx_file(folder, folder)
    if not weights and graph is None:
        raise MissingWeightsError(f"{folder} contains no weights", hint=_HINT)
    if not (folder / "tokenizer.json").is_file():
        raise InvalidInputError(f"{folder} has no tokenizer.json", hint=_HINT)
    pad = config.get("pad_token_id")
    return FineTuned(
        folder.name, folder, names, _kind(config, folder),
        read_max_tokens(folder, count_positions(config)), pad if isinstance(pad, int) else None,
        graph, bool(weights), sum(path.stat().st_size for path in filter(None, (*weights, graph))),
    )  # fmt: skip


def _read_config(folder: Path) -> dict[str, Any]:
    found = read_config(folder, hint=_HINT)
    kinds = [str(one) for one in found.get("architectures") or ()]
    if kinds and not any("SequenceClassification" in one for one in kinds):
        raise InvalidInputError(
            f"{folder} contains a {kinds[0]}, not a text classifier",
            hint="Its architecture must be ...ForSequenceClassification; fine-tune it first.",
        )
    return found


def _labels(config: dict[str, Any]) -> tuple[str, ...]:
    """The names by number, as id2label has them."""
    names = config.get("id2label")
    if isinstance(names, dict) and names:
        try:
            by_number = {int(key): str(value) for key, value in names.items()}
        except (TypeError, ValueError):
            by_number = {}
        if sorted(by_number) == list(range(len(by_number))) and by_number:
            return tuple(by_number[n] for n in range(len(by_number)))
        raise InvalidInputError("id2label of config.json skips a number", hint=_HINT)
    count = config.get("num_labels", 2)  # transformers' own default
    return tuple(f"LABEL_{number}" for number in range(int(count)))


def _kind(config: dict[str, Any], folder: Path) -> Kind:
    problem = config.get("problem_type")
    if problem == "regression":
        raise InvalidInputError(
            f"{folder} is a regression model, not a classifier", hint="Use a classifier."
        )
    alone = len(_labels(config)) == 1
    return "many" if problem == "multi_label_classification" or alone else "one"
