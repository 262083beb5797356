"""IndexTTS on a device whose memory ends twice, each time when some audio was made already.

A worker in the environment of IndexTTS imports it: it needs nothing else of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyrig.speech.engine import TakePart, Utterance
from anyrig.speech.engines.indextts import IndexTts, IndexTts2

_CALLS_TO_FAIL = (1, 3)


class TightIndexTts(IndexTts):
    num_calls = 0

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        self.num_calls += 1
        yield from _run_out_of_memory(super().synthesize(batch), self.num_calls)


class TightIndexTts2(IndexTts2):
    num_calls = 0

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        self.num_calls += 1
        yield from _run_out_of_memory(super().synthesize(batch), self.num_calls)


def _run_out_of_memory(parts: Iterator[TakePart], call: int) -> Iterator[TakePart]:
    import torch

    for part in parts:
        yield part
        if call in _CALLS_TO_FAIL:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
