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

CHUNK = 1024
"""Texts that are cut at a time: enough for all cores, few enough to begin early."""
_LEAST_STRIDE = 16


class Chunk(NamedTuple):
    """Some texts, cut into windows."""

    windows: list[NDArray[np.int32]]
    """Token numbers, with those at the ends of a window."""
    owners: list[int]
    """For each window, which text of the chunk it belongs to."""
    num_texts: int


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

    def chunks(self, texts: Iterable[str]) -> Iterator[Chunk]:
        """All texts in order, some at a time."""
        import numpy as np

        texts = iter(texts)
        while some := list(islice(texts, CHUNK)):
            windows, owners = [], []
            for number, encoded in enumerate(self._tokenizer.encode_batch_fast(some)):
                for part in (encoded, *encoded.overflowing):
                    windows.append(np.array(part.ids, dtype=np.int32))
                    owners.append(number)
            yield Chunk(windows, owners, len(some))

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
