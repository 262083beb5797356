"""Sequence-to-sequence models as an engine of `work`: stretches of text in, summaries out.

Beam search without chance: the same text gives the same summary. Batches, sorting by length and
what happens when memory runs out are `work`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.errors import MissingPackageError, MissingWeightsError
from anyrig.install import format_install
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    import torch

    from anyrig.placement import Placement

_MOST_ITEMS = 16
_REPEATS = 3  # no three words twice: beams love to say a thing again


class SummaryWindow(NamedTuple):
    """A stretch of a text, cut so that the model takes it whole."""

    text: str
    num_tokens: int
    least: int
    """Tokens that are written at least."""
    most: int
    """And at most."""

    @property
    def cost(self) -> float:
        """What it costs: reading is done once, writing token by token."""
        return float(self.num_tokens + 4 * self.most)


class Seq2Seq(BaseEngine):
    """Pieces of text to summaries."""

    name = "seq2seq"
    version = "1"
    pads = True
    max_items = _MOST_ITEMS
    first_batch_cost = 2_048.0  # a batch of small windows takes no longer than one of them

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str,
        prefix: str,
        longest: int,
        beams: int,
        length_penalty: float,
    ) -> None:
        """Load the model of a folder."""
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        self._device: torch.device = self.handle.device
        self._prefix, self._longest = prefix, longest
        self._beams, self._penalty = beams, length_penalty
        self._tokenizer = open_tokenizer(folder)
        self._model = _load(folder, placement.precision).to(self._device).eval()

    def run(self, batch: Sequence[SummaryWindow]) -> list[str]:
        """A summary of each; how much may be written is each one's own, whatever its company."""
        found = [""] * len(batch)
        for limits in dict.fromkeys((piece.least, piece.most) for piece in batch):
            rows = [n for n, piece in enumerate(batch) if (piece.least, piece.most) == limits]
            texts = self._write([batch[n].text for n in rows], *limits)
            for row, text in zip(rows, texts, strict=True):
                found[row] = text
        return found

    def _write(self, texts: Sequence[str], least: int, most: int) -> list[str]:
        import torch

        rows = self._tokenizer(
            [self._prefix + text for text in texts],
            return_tensors="pt", padding=True, truncation=True, max_length=self._longest,
        )  # fmt: skip
        with torch.inference_mode():
            made = self._model.generate(
                input_ids=rows["input_ids"].to(self._device),
                attention_mask=rows["attention_mask"].to(self._device),
                num_beams=self._beams, do_sample=False, early_stopping=True,
                length_penalty=self._penalty, no_repeat_ngram_size=_REPEATS,
                min_new_tokens=least, max_new_tokens=most, max_length=None, min_length=None,
            )  # fmt: skip
        written = self._tokenizer.batch_decode(made, skip_special_tokens=True)
        return [" ".join(str(text).split()) for text in written]


def open_tokenizer(folder: str) -> Any:
    """That of a folder."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise _missing(error) from error
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise MissingWeightsError(
            f"the tokenizer of {folder} cannot be opened: {error}", hint="Save the model again."
        ) from error


def _load(folder: str, precision: str) -> Any:
    try:
        import torch
        from transformers import AutoModelForSeq2SeqLM
    except ImportError as error:
        raise _missing(error) from error
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    try:
        # Never code of the folder, and no pickles where there is something safer.
        return AutoModelForSeq2SeqLM.from_pretrained(
            folder, dtype=kinds.get(precision, torch.float32), local_files_only=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise MissingWeightsError(
            f"the model of {folder} cannot be loaded: {error}", hint="Save the model again."
        ) from error


def _missing(error: ImportError) -> MissingPackageError:
    return MissingPackageError(
        f"a model that writes summaries needs the package {error.name}",
        hint=format_install("anyrig[torch]"),
    )
