"""Texts to token numbers, ahead of the model and in parallel, long ones in windows.

The tokenizers library works on all cores and lets go of the interpreter meanwhile, so a device that
computes does not wait for words to be cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import NeedsWeights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

CHUNK = 512
"""Texts that are cut at a time: enough for all cores, few enough to begin early."""
_LEAST_STRIDE = 16


class Window(NamedTuple):
    """A stretch of a text that the model takes at a time."""

    text: int
    """Which text, counted from 0."""
    tokens: NDArray[np.int32]
    """With those at its ends."""
    last: bool
    """Whether it is the last of its text."""


class Tokeniser:
    """A tokenizer.json.

    Args:
        file: its path.
        longest: the most tokens of a window, those at its ends included.
        overlap: tokens that two windows of a long text share.
    """

    def __init__(self, file: Path, *, longest: int, overlap: int = 0) -> None:
        from tokenizers import Tokenizer

        try:
            made: Tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
            raise NeedsWeights(
                f"{file} is no tokenizer: {error}", hint="It is the model's tokenizer.json."
            ) from error
        made.no_padding()
        ends = made.num_special_tokens_to_add(False)
        stride = min(overlap, max(0, longest - ends - _LEAST_STRIDE))
        made.enable_truncation(longest, stride=stride)
        self._tokenizer = made
        self.longest = longest

    def windows(self, texts: Iterable[str]) -> Iterator[Window]:
        """Every window of every text, in order."""
        import numpy as np

        texts = iter(texts)
        number = 0
        while chunk := list(islice(texts, CHUNK)):
            for encoded in self._tokenizer.encode_batch_fast(chunk):
                parts = [encoded, *encoded.overflowing]
                for place, part in enumerate(parts, 1):
                    tokens = np.array(part.ids, dtype=np.int32)
                    yield Window(number, tokens, place == len(parts))
                number += 1

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, whatever its length."""
        found = self._tokenizer.encode_batch_fast(list(texts))
        return [sum(len(part.ids) for part in (one, *one.overflowing)) for one in found]


def longest_of(folder: Path, default: int) -> int:
    """How many tokens a model of a folder was made for, as its files say."""
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        try:
            told = json.loads((folder / name).read_text(encoding="utf-8")).get(key)
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(told, int) and 0 < told <= default:
            return told
    return default
