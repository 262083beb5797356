"""Fine-tuned classifiers as engines of `work`: texts in, probabilities out.

A text longer than the model takes is read in windows that overlap; its answer is the mean of
theirs, each weighed by its tokens. Rows go by length, so that little is padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.errors import (
    DeviceError,
    Message,
    MissingPackageError,
    MissingWeightsError,
    OptionRef,
)
from anyrig.install import format_install
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.classify.probability import Array, Kind
    from anyrig.placement import Placement

_OVERLAP = 32
_ROWS_TOKENS = 4096
"""Padded tokens that go through the model at once; memory does not grow with a text's length."""


class Told(NamedTuple):
    """What a model says of a text."""

    probabilities: tuple[float, ...]
    window: tuple[int, int]
    """Where the stretch that speaks most for the likeliest label begins and ends."""
    window_probability: float
    num_windows: int


class Window(NamedTuple):
    """A row of tokens."""

    ids: tuple[int, ...]
    owner: int
    """Which text of the batch it is of."""
    start: int
    end: int


def make(placement: Placement, **options: Any) -> Classifier:
    """The engine for a placement: torch or ONNX Runtime."""
    kind = TorchClassifier if placement.backend.library == "torch" else OnnxClassifier
    return kind(placement, **options)


class Classifier(BaseEngine):
    """What both ways share: windows, batches, and putting answers together."""

    name = "classifier"
    version = "1"
    pads = False

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str,
        kind: Kind,
        longest: int,
        pad: int | None,
        graph: str = "",
    ) -> None:
        """Open the tokenizer; a subclass loads the model."""
        from tokenizers import Tokenizer

        super().__init__(placement)
        self._folder, self._kind, self._pad = Path(folder), kind, pad
        try:
            made: Tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
            raise MissingWeightsError(
                f"{folder}/tokenizer.json is not a tokenizer: {error}", hint="Save the model again."
            ) from error
        made.no_padding()
        ends = made.num_special_tokens_to_add(False)
        made.enable_truncation(longest, stride=max(0, min(_OVERLAP, (longest - ends) // 4)))
        self._tokenizer = made

    def run(self, batch: Sequence[str]) -> list[Told]:
        """What each text is."""
        import numpy as np

        windows = list(self._windows(batch))
        told = np.zeros((len(windows), 0))
        order = sorted(range(len(windows)), key=lambda n: len(windows[n].ids))
        for rows in self._batches([len(windows[n].ids) for n in order]):
            numbers = [order[n] for n in rows]
            answers = self._answers([windows[n].ids for n in numbers])
            if told.shape[1] == 0:
                told = np.zeros((len(windows), answers.shape[1]))
            told[numbers] = answers
        return [self._joined(number, windows, told) for number in range(len(batch))]

    def _windows(self, texts: Sequence[str]) -> Iterator[Window]:
        for number, whole in enumerate(self._tokenizer.encode_batch(list(texts))):
            for part in (whole, *whole.overflowing):
                inner = [span for span in part.offsets if span[1] > span[0]]
                start, end = (inner[0][0], inner[-1][1]) if inner else (0, 0)
                yield Window(tuple(part.ids), number, start, end)

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows in the order of their lengths, as many at once as the budget holds."""
        rows: list[int] = []
        for number, length in enumerate(lengths):
            full = (len(rows) + 1) * length > _ROWS_TOKENS or self._pad is None
            if rows and full:
                yield rows
                rows = []
            rows.append(number)
        if rows:
            yield rows

    def _answers(self, rows: Sequence[Sequence[int]]) -> Array:
        """Probabilities of some rows."""
        import numpy as np

        from anyrig.documents.classify.probability import probabilities

        longest = max(1, *(len(row) for row in rows)) if rows else 1
        ids = np.full((len(rows), longest), self._pad or 0, np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        scores = self._scores(ids, mask)
        if not np.isfinite(scores).all():
            raise DeviceError(
                "the classifier gives no finite score for a text",
                hint=Message(
                    "Its weights may be damaged, or the precision is too low: pass {precision}.",
                    precision=OptionRef("precision", "fp32"),
                ),
            )
        return probabilities(scores.astype(np.float64), self._kind)

    def _scores(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        raise NotImplementedError

    def _joined(self, owner: int, windows: Sequence[Window], told: Array) -> Told:
        import numpy as np

        rows = [n for n, window in enumerate(windows) if window.owner == owner]
        sizes = [max(1, len(windows[n].ids)) for n in rows]
        mean = np.average(told[rows], axis=0, weights=sizes)
        best = max(rows, key=lambda n: told[n, int(mean.argmax())])
        return Told(
            tuple(float(share) for share in mean),
            (windows[best].start, windows[best].end),
            float(told[best, int(mean.argmax())]),
            len(rows),
        )


class TorchClassifier(Classifier):
    """Through transformers and torch."""

    def __init__(self, placement: Placement, **options: Any) -> None:
        """Load the model of a folder."""
        super().__init__(placement, **options)
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        self._device = self.handle.device
        self._model = self._load(placement.precision)

    def _load(self, precision: str) -> Any:
        import torch

        try:
            from transformers import AutoModelForSequenceClassification
        except ImportError as error:
            raise MissingPackageError(
                f"a fine-tuned classifier needs the package {error.name}",
                hint=format_install("anyrig[torch]"),
            ) from error
        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        try:
            model = AutoModelForSequenceClassification.from_pretrained(
                str(self._folder), dtype=kinds.get(precision, torch.float32), local_files_only=True
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise MissingWeightsError(
                f"{self._folder} cannot be loaded: {error}", hint="Save the model again."
            ) from error
        return model.to(self._device).eval()

    def _scores(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            found = self._model(
                input_ids=torch.from_numpy(ids).to(self._device),
                attention_mask=torch.from_numpy(mask).to(self._device),
            ).logits
            if not bool(found.isfinite().all()) and found.dtype != torch.float32:
                self._model = self._load("fp32")  # half precision overflows: not for this model
                return self._scores(ids, mask)
        scores: NDArray[np.float32] = found.float().cpu().numpy()
        return scores


class OnnxClassifier(Classifier):
    """Through ONNX Runtime, on whatever it drives."""

    def __init__(self, placement: Placement, **options: Any) -> None:
        """Load the graph of a folder."""
        super().__init__(placement, **options)
        from anyrig.backends import open_device
        from anyrig.backends.onnx import OnnxHandle

        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, OnnxHandle)
        self._loaded = self.handle.load(Path(options["graph"]))
        self._inputs = [one.name for one in self._loaded.session.get_inputs()]

    def _scores(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        import numpy as np

        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        unknown = [name for name in self._inputs if name not in given]
        if unknown:
            raise DeviceError(
                f"the graph wants {', '.join(unknown)}, which no classifier of texts has",
                hint="Export it again with input_ids and attention_mask.",
            )
        found = self._loaded.run({name: given[name] for name in self._inputs})
        scores: NDArray[np.float32] = found[0]
        return scores
