"""Texts to token numbers, ahead of the model and in parallel, long ones in windows.

The tokenizers library works on all cores and lets go of the interpreter meanwhile, so a device that
computes does not wait for words to be cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import NeedsWeights
from anyrig.install import install_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

CHUNK, FEW = 1024, 256
"""Texts that are cut at a time: enough for all cores and a GPU; and where there is none of these.

What is made comes out chunk by chunk, so the fewer there are the less a kill can lose.
"""
_LEAST_STRIDE = 16


class Chunk(NamedTuple):
    """Some texts, cut into windows."""

    windows: list[NDArray[np.int32]]
    """Token numbers, with those at the ends of a window."""
    owners: list[int]
    """For each window, which text of the chunk it belongs to."""
    num_texts: int
    num_cut: int = 0
    """Texts whose end was left out."""


class Tokeniser:
    """A tokenizer.json.

    Args:
        file: its path.
        longest: the most tokens of a window, those at its ends included.
        overlap: tokens that two windows of a long text share.
        windows: whether a long text is taken in windows; else it is cut, and counted.
        lower: whether texts are made small letters first, as sentence-transformers does for some.
        chunk: texts that are cut at a time.
    """

    def __init__(
        self,
        file: Path,
        *,
        longest: int,
        overlap: int = 0,
        windows: bool = True,
        lower: bool = False,
        chunk: int = CHUNK,
    ) -> None:
        made = opened(file)
        made.no_padding()
        ends = made.num_special_tokens_to_add(False)
        stride = min(overlap, max(0, longest - ends - _LEAST_STRIDE))
        made.enable_truncation(longest, stride=stride)
        self._tokenizer = made
        self.longest = longest
        self._windows, self._lower, self._chunk = windows, lower, chunk

    def chunks(self, texts: Iterable[str]) -> Iterator[Chunk]:
        """All texts in order, some at a time."""
        import numpy as np

        texts = iter(texts)
        while some := list(islice(texts, self._chunk)):
            windows, owners, num_cut = [], [], 0
            for number, encoded in enumerate(self._cut(some)):
                rest = encoded.overflowing if self._windows else ()
                num_cut += not self._windows and bool(encoded.overflowing)
                for part in (encoded, *rest):
                    windows.append(np.array(part.ids or (0,), dtype=np.int32))
                    owners.append(number)
            yield Chunk(windows, owners, len(some), num_cut)

    def _cut(self, texts: list[str]) -> list[Encoding]:
        if self._lower:
            texts = [text.lower() for text in texts]
        try:
            return self._tokenizer.encode_batch_fast(texts)
        except (UnicodeEncodeError, TypeError):  # half a character, as broken files have
            whole = [text.encode("utf-8", "replace").decode() for text in texts]
            return self._tokenizer.encode_batch_fast(whole)


def opened(file: Path) -> Tokenizer:
    """The tokenizer of a file, or of older files beside where it would be."""
    from tokenizers import Tokenizer

    if not file.is_file():
        return _converted(file.parent)
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
        raise NeedsWeights(
            f"{file} is no tokenizer: {error}", hint="It is the model's tokenizer.json."
        ) from error


def _converted(folder: Path) -> Tokenizer:
    """A tokenizer of the older files in a folder, as transformers reads them."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise NeedsWeights(
            f"{folder} has no tokenizer.json",
            hint=f"Get it from the model's page, or {install_line('anyrig[torch]')} to make one.",
        ) from error
    try:
        made: Tokenizer = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True
        ).backend_tokenizer
    except Exception as error:  # noqa: BLE001 - each kind of tokenizer raises its own
        raise NeedsWeights(
            f"{folder} has no tokenizer that can be read: {str(error).splitlines()[0]}",
            hint="It needs the model's tokenizer.json.",
        ) from error
    return made


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
