"""GLiNER: names of any sort, by labels in words."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.documents.entities.spans import Span, owned
from anyrig.errors import MissingPackageError, MissingWeightsError, OptionRef
from anyrig.install import format_install
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.documents.entities.stretches import Window
    from anyrig.placement import Placement

_ROWS = {"cpu": 8, "gpu": 64}
_WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")  # what the library counts as one
_LONGEST = 384


class GlinerSpans(BaseEngine):
    """Windows to spans, by labels that were given."""

    name = "gliner"
    version = "1"
    memory_options = (OptionRef("precision", "bf16"), OptionRef("device", "cpu"))

    def __init__(
        self,
        placement: Placement,
        *,
        model: str,
        labels: Sequence[str],
        threshold: float = 0.5,
    ) -> None:
        """Load the model where it was placed."""
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        self._labels, self._threshold = list(labels), threshold
        self._rows = _ROWS["gpu" if placement.device.kind == "gpu" else "cpu"]
        self._model = _load(model).to(self.handle.device).eval()
        self._longest = int(getattr(self._model.config, "max_len", 0) or _LONGEST)
        if placement.precision in ("bf16", "fp16"):
            import torch

            kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
            self._model = self._model.to(kinds[placement.precision])

    def run(self, batch: Sequence[Window]) -> list[list[Span]]:
        """The spans of each window."""
        import torch

        cut = [_parts(window.text, self._longest) for window in batch]
        texts = [batch[n].text[low:high] for n, parts in enumerate(cut) for low, high in parts]
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")
            found = iter(self._model.inference(
                texts, self._labels, threshold=self._threshold, flat_ner=True,
                batch_size=self._rows,
            ) if texts else ())  # fmt: skip
        return [
            owned([(low, high, _spans(next(found), low)) for low, high in parts]) for parts in cut
        ]


def _spans(told: Sequence[dict[str, Any]], by: int) -> list[Span]:
    return [
        Span(one["start"] + by, one["end"] + by, one["label"], float(one["score"])) for one in told
    ]


def _parts(text: str, longest: int) -> list[tuple[int, int]]:
    """Stretches of at most so many words, which the model would else cut off without a word."""
    words = [found.span() for found in _WORD.finditer(text)]
    parts, first = [], 0
    step = max(1, longest - max(4, longest // 8))
    while first < len(words):
        last = min(len(words), first + longest)
        parts.append((words[first][0], words[last - 1][1]))
        if last == len(words):
            break
        first += step
    return parts


def _load(model: str) -> Any:
    logging.getLogger("gliner").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from gliner import GLiNER

            return GLiNER.from_pretrained(model, local_files_only=Path(model).is_dir())
        except ImportError as error:
            raise MissingPackageError(
                f"gliner cannot be loaded: {error}",
                hint=f"{format_install('anyrig[torch]')} && "
                f"{format_install('gliner==0.2.29', options='--no-deps')}",
            ) from error
        except (OSError, ValueError) as error:
            raise MissingWeightsError(
                f"no GLiNER model {model}: {' '.join(str(error).split())[:200]}",
                hint="Pass the folder of one, or its name on the hub.",
            ) from error
