"""IndexTTS 2.5 on a device whose memory ends twice, each time when some audio was made already.

A worker in the environment of IndexTTS imports it: it needs nothing else of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyrig.speech.engine import TakePart, Utterance
from anyrig.speech.engines.indextts import IndexTts


class TightIndexTts(IndexTts):
    _calls_to_fail = (1, 3)
    _num_calls = 0

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        import torch

        self._num_calls += 1
        for part in super().synthesize(batch):
            yield part
            if self._num_calls in self._calls_to_fail:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
