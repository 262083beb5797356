"""IndexTTS on a device whose memory ends the first time that it speaks a text, when some audio of
it was made already.

A worker in the environment of IndexTTS imports it: it needs nothing else of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyrig.speech.engine import TakePart, Utterance
from anyrig.speech.engines.indextts import IndexTts, IndexTts2

_tried: set[str] = set()


class TightIndexTts(IndexTts):
    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        yield from _run_out_of_memory(super().synthesize(batch), batch[0].text)


class TightIndexTts2(IndexTts2):
    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        yield from _run_out_of_memory(super().synthesize(batch), batch[0].text)


def _run_out_of_memory(parts: Iterator[TakePart], text: str) -> Iterator[TakePart]:
    import torch

    for part in parts:
        yield part
        if text not in _tried:
            _tried.add(text)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
