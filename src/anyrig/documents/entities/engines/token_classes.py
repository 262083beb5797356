"""Token-classification models of any family: a folder or a name on the hub, by torch or as ONNX.

A window with more tokens than the model takes is read in rows that overlap. Rows go through the
model by length, so that little is padded, and so many at once as tokens allow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.documents.entities.names import graph_of
from anyrig.documents.entities.spans import Span, owned, spans_of, words_of
from anyrig.errors import DeviceError, MissingPackageError, MissingWeightsError, OptionRef
from anyrig.install import format_install
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.entities.stretches import Window
    from anyrig.placement import Placement

_LONGEST = 512
_STRIDE = 64
_ROWS_TOKENS = {"cpu": 4096, "gpu": 65_536}
_SHIFTED = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer", "mpnet")
"""Families that count their positions from 2."""


class _Row(NamedTuple):
    """Some tokens of a window."""

    owner: int
    encoding: Any


class TokenClasses(BaseEngine):
    """Windows to spans, each with the model's own label."""

    name = "token-classes"
    version = "1"
    pads = False
    memory_options = (OptionRef("precision", "bf16"), OptionRef("device", "cpu"))

    def __init__(self, placement: Placement, *, model: str, threshold: float = 0.5) -> None:
        """Load the model where it was placed."""
        from anyrig.backends import open_device

        self._model, self._threshold = model, threshold
        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        graph = graph_of(Path(model)) if placement.backend.library == "onnx" else None
        self._net: _Net = _Graph(self.handle, model, graph) if graph else _Torch(
            self.handle, model, placement.precision
        )  # fmt: skip
        self._labels = self._net.labels
        self._budget = _ROWS_TOKENS["gpu" if placement.device.kind == "gpu" else "cpu"]
        self._tokenizer = self._cutter()

    def run(self, batch: Sequence[Window]) -> list[list[Span]]:
        """The spans of each window."""
        rows = []
        for owner, encoding in enumerate(self._tokenizer.encode_batch([w.text for w in batch])):
            rows += [_Row(owner, part) for part in (encoding, *encoding.overflowing)]
        parts: list[list[tuple[int, int, list[Span]]]] = [[] for _ in batch]
        found: dict[int, tuple[int, int, list[Span]]] = {}
        for numbers in self._batches(rows):
            chosen = [rows[number] for number in numbers]
            for number, row, (labels, scores) in zip(
                numbers, chosen, self._classified(chosen), strict=True
            ):
                text = batch[row.owner].text
                offsets, ids = row.encoding.offsets, row.encoding.word_ids
                words = words_of(offsets, ids, labels, scores, text)
                first = words[0].start if words else 0
                last = words[-1].end if words else 0
                found[number] = (first, last, spans_of(words, text, self._threshold))
        for number, row in enumerate(rows):
            parts[row.owner].append(found[number])
        return [owned(one) for one in parts]

    def _batches(self, rows: Sequence[_Row]) -> Iterator[list[int]]:
        """Rows of like length together, no more tokens than the budget."""
        order = sorted(range(len(rows)), key=lambda number: len(rows[number].encoding.ids))
        some: list[int] = []
        for number in order:
            length = len(rows[number].encoding.ids)
            if some and length * (len(some) + 1) > self._budget:
                yield some
                some = []
            some.append(number)
        if some:
            yield some

    def _classified(self, rows: Sequence[_Row]) -> Iterator[tuple[list[str], list[float]]]:
        """The label and score of every token of each row."""
        import numpy as np

        longest = max(len(row.encoding.ids) for row in rows)
        tokens = np.full((len(rows), longest), self._net.pad, np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        for number, row in enumerate(rows):
            tokens[number, : len(row.encoding.ids)] = row.encoding.ids
            mask[number, : len(row.encoding.ids)] = 1
        logits = self._net.logits(tokens, mask)
        best = logits.argmax(-1)
        top = logits.max(-1, keepdims=True)
        scores = 1.0 / np.exp(logits - top).sum(-1)
        for number, row in enumerate(rows):
            size = len(row.encoding.ids)
            yield [self._labels[n] for n in best[number, :size]], scores[number, :size].tolist()

    def _cutter(self) -> Any:
        tokenizer = self._net.tokenizer()
        tokenizer.no_padding()
        longest = self._net.longest
        ends = tokenizer.num_special_tokens_to_add(False)
        stride = max(0, min(_STRIDE, (longest - ends) // 4))
        tokenizer.enable_truncation(longest, stride=stride)
        return tokenizer


class _Net:
    """A network that labels tokens, whatever runs it."""

    labels: list[str]
    longest: int
    pad: int

    def logits(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """A score for each label of each token."""
        raise NotImplementedError

    def tokenizer(self) -> Any:
        """What cuts texts for it."""
        raise NotImplementedError

    def _told(self, config: dict[str, Any]) -> None:
        names = {int(number): str(name) for number, name in (config.get("id2label") or {}).items()}
        self.labels = [names.get(number, "O") for number in range(max(names, default=-1) + 1)]
        positions = int(config.get("max_position_embeddings") or _LONGEST)
        positions -= 2 if config.get("model_type") in _SHIFTED else 0
        self.longest = max(8, min(_LONGEST, positions))
        self.pad = int(config.get("pad_token_id") or 0)


class _Torch(_Net):
    """Through transformers."""

    def __init__(self, handle: Any, model: str, precision: str) -> None:
        self._handle, self._model = handle, model
        self._network = self._load(precision)
        self._careful: Any = None
        self._told(self._network.config.to_dict())

    def _load(self, precision: str) -> Any:
        import torch

        try:
            from transformers import AutoModelForTokenClassification
        except ImportError as error:
            raise MissingPackageError(
                "transformers is not installed", hint=format_install("anyrig[torch]")
            ) from error
        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        try:
            made: Any = AutoModelForTokenClassification.from_pretrained(
                self._model, dtype=kinds.get(precision, torch.float32)
            )
        except (OSError, ValueError) as error:
            raise MissingWeightsError(
                f"no model {self._model}: {' '.join(str(error).split())[:200]}",
                hint="Pass the folder of a token-classification model, or its name on the hub.",
            ) from error
        return made.eval().to(self._handle.device)

    def logits(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Through the network; once more in full precision where it gave no number."""
        import numpy as np

        found = self._forward(self._network, tokens, mask)
        if np.isfinite(found).all():
            return found
        if self._careful is None:
            self._careful = self._load("fp32")
        found = self._forward(self._careful, tokens, mask)
        if not np.isfinite(found).all():
            raise DeviceError(
                "the model gives no finite scores", hint="Its weights may be damaged."
            )
        return found

    def _forward(
        self, network: Any, tokens: NDArray[np.int64], mask: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            ids = torch.from_numpy(tokens).to(self._handle.device)
            seen = torch.from_numpy(mask).to(self._handle.device)
            made: NDArray[np.float32] = (
                network(input_ids=ids, attention_mask=seen).logits.float().cpu().numpy()
            )
        return made

    def tokenizer(self) -> Any:
        """The file in the folder, else what transformers makes of it."""
        file = Path(self._model) / "tokenizer.json"
        if file.is_file():
            return _from_file(file)
        from transformers import AutoTokenizer

        try:
            made = AutoTokenizer.from_pretrained(self._model, use_fast=True)
        except (OSError, ValueError, ImportError) as error:
            raise MissingWeightsError(
                f"no tokenizer of {self._model}: {' '.join(str(error).split())[:160]}",
                hint="Save it beside the model: `tokenizer.save_pretrained(FOLDER)`.",
            ) from error
        backend = getattr(made, "backend_tokenizer", None)
        if backend is None:
            raise MissingWeightsError(
                f"the tokenizer of {self._model} tells no offsets",
                hint="Save a fast one beside the model: a tokenizer.json.",
            )
        return backend


class _Graph(_Net):
    """Through ONNX Runtime, without torch."""

    def __init__(self, handle: Any, model: str, graph: Path) -> None:
        self._folder = Path(model)
        self._loaded = handle.load(graph)
        self._inputs = {one.name for one in self._loaded.session.get_inputs()}
        self._told(_config(self._folder / "config.json"))

    def logits(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Through the graph."""
        import numpy as np

        given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": tokens * 0}
        fed = {name: value for name, value in given.items() if name in self._inputs}
        (made, *_) = self._loaded.session.run(None, fed)
        found: NDArray[np.float32] = np.asarray(made, np.float32)
        if not np.isfinite(found).all():
            raise DeviceError(
                "the model gives no finite scores", hint="Its weights may be damaged."
            )
        return found

    def tokenizer(self) -> Any:
        """The file in the folder."""
        return _from_file(self._folder / "tokenizer.json")


def _from_file(file: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
        raise MissingWeightsError(
            f"{file} is not a tokenizer: {error}", hint="It is the model's tokenizer.json."
        ) from error


def _config(path: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MissingWeightsError(
            f"{path} cannot be read: {error}", hint="It lies beside the model and names its labels."
        ) from error
    return told
