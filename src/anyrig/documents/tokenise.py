"""Texts to token numbers, ahead of the model and in parallel, long ones in windows.

The tokenizers library works on all cores and lets go of the interpreter meanwhile, so a device that
computes does not wait for words to be cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import MissingWeightsError
from anyrig.install import format_install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

CHUNK, FEW = 1024, 256
"""Texts that are cut at a time: enough for all cores and a GPU; and where there is none of these.

What is made comes out chunk by chunk, so the fewer there are the less a kill can lose.
"""
_LEAST_STRIDE = 16
PIECE, AT_ONCE = 100_000, 250_000
"""Characters that the tokenizer is given as one text, and in all: it takes up to 460 bytes for each
of them, so a longer text goes in pieces and many texts one after the other."""
_ENDS = re.compile(r"\s")


class Chunk(NamedTuple):
    """Some texts, cut into windows."""

    windows: list[NDArray[np.int32]]
    """Token numbers, with those at the ends of a window."""
    owners: list[int]
    """For each window, which text of the chunk it belongs to."""
    num_texts: int
    num_cut: int = 0
    """Texts whose end was left out."""
    pieces: Sequence[str] = ()
    """The windows of a model that takes texts as they are."""

    @property
    def lengths(self) -> list[int]:
        """Of each window."""
        return [len(window) for window in self.windows or self.pieces]


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
        self._stride = stride
        self._windows, self._lower, self._chunk = windows, lower, chunk

    def chunks(self, texts: Iterable[str], prompt: str = "") -> Iterator[Chunk]:
        """All texts in order, some at a time.

        Args:
            texts: what is cut into windows.
            prompt: what stands before each window.
        """
        texts = iter(texts)
        if self._lower:
            texts, prompt = map(str.lower, texts), prompt.lower()
        before = self._before(prompt)
        while some := list(islice(texts, self._chunk)):
            windows: list[NDArray[np.int32]] = []
            owners: list[int] = []
            cut: set[int] = set()
            for numbers, held in self._batches(some, cut):
                encoded = self._encoded([prompt + piece for piece in held])
                for number, one in zip(numbers, encoded, strict=True):
                    if one.overflowing and not self._windows:
                        cut.add(number)
                    made = self._windows_of(one, before)
                    windows += made
                    owners += [number] * len(made)
            yield Chunk(windows, owners, len(some), len(cut))

    def _batches(
        self, texts: Sequence[str], cut: set[int]
    ) -> Iterator[tuple[list[int], list[str]]]:
        """Texts and pieces of long ones, with their texts' numbers, as many as fit in memory."""
        numbers: list[int] = []
        held: list[str] = []
        size = 0
        for number, text in enumerate(texts):
            for place, piece in enumerate(pieces(text)):
                if place and not self._windows:
                    cut.add(number)
                    break
                if held and size + len(piece) > AT_ONCE:
                    yield numbers, held
                    numbers, held, size = [], [], 0
                numbers.append(number)
                held.append(piece)
                size += len(piece)
        yield numbers, held

    def _windows_of(self, encoded: Encoding, before: Sequence[int]) -> list[NDArray[np.int32]]:
        """The windows of a text that the tokenizer has cut, or the first alone."""
        import numpy as np

        parts = [encoded, *encoded.overflowing] if self._windows else [encoded]
        rows = [np.array(part.ids or (0,), dtype=np.int32) for part in parts]
        return rows if len(rows) == 1 or not before else self._with_prompt(encoded, rows, before)

    def _with_prompt(
        self, encoded: Encoding, rows: Sequence[NDArray[np.int32]], before: Sequence[int]
    ) -> list[NDArray[np.int32]]:
        """The windows of a text whose first one begins with the prompt, so that each does."""
        import numpy as np

        mask = encoded.special_tokens_mask
        head = mask.index(0)
        tail = mask[::-1].index(0)
        inner = [row[head : len(row) - tail] for row in rows]
        tokens = np.concatenate([inner[0], *(row[self._stride :] for row in inner[1:])])
        # Where the end of the prompt and the text make one token, that stays with the text.
        common = next(
            (n for n, (a, b) in enumerate(zip(before, tokens, strict=False)) if a != b), len(before)
        )
        tokens = tokens[common:]
        size = self.longest - head - tail - len(before)
        step = size - min(self._stride, max(0, size - _LEAST_STRIDE))
        starts = range(0, max(1, len(tokens) - size + step), step)
        first = rows[0]
        return [
            np.concatenate([
                first[:head], np.array(before, np.int32), tokens[start : start + size],
                first[len(first) - tail :],
            ])
            for start in starts
        ]  # fmt: skip

    def _before(self, prompt: str) -> list[int]:
        """The tokens of a prompt; none where it leaves a window no room for a text."""
        if not prompt.strip():
            return []
        (encoded,) = self._encoded([prompt.rstrip()])
        inner = [
            number
            for number, special in zip(encoded.ids, encoded.special_tokens_mask, strict=True)
            if not special
        ]
        room = self.longest - len(encoded.ids)
        return inner if room >= _LEAST_STRIDE and not encoded.overflowing else []

    def _encoded(self, texts: list[str]) -> list[Encoding]:
        try:
            return self._tokenizer.encode_batch_fast(texts)
        except (UnicodeEncodeError, TypeError):  # half a character, as broken files have
            whole = [text.encode("utf-8", "replace").decode() for text in texts]
            return self._tokenizer.encode_batch_fast(whole)


def count(tokenizer: Tokenizer, texts: Iterable[str]) -> int:
    """How many tokens texts are, without those at their ends."""
    found, some, size = 0, list[str](), 0

    def counted() -> int:
        return sum(map(len, tokenizer.encode_batch_fast(some, add_special_tokens=False)))

    for text in texts:
        for piece in pieces(text.encode("utf-8", "replace").decode()):
            if some and size + len(piece) > AT_ONCE:
                found, some, size = found + counted(), [], 0
            some.append(piece)
            size += len(piece)
    return found + counted()


def chunks_of_texts(
    texts: Iterable[str], *, chunk: int, most: int, windows: bool = True
) -> Iterator[Chunk]:
    """Texts for a model that takes them as they are: in windows of so many characters.

    Args:
        texts: what is cut into windows.
        chunk: texts at a time.
        most: characters of a window; a longer text has several, or is cut.
        windows: whether it has several.
    """
    texts = iter(texts)
    while some := list(islice(texts, chunk)):
        found: list[str] = []
        owners: list[int] = []
        num_cut = 0
        for number, text in enumerate(some):
            parts = list(pieces(text, most))
            num_cut += len(parts) > 1 and not windows
            parts = parts if windows else parts[:1]
            found += parts
            owners += [number] * len(parts)
        yield Chunk([], owners, len(some), num_cut, found)


def pieces(text: str, most: int = PIECE) -> Iterator[str]:
    """A text, in pieces of so many characters where it is longer: cut between words if it can be.

    Pieces of nothing but spaces are left out.
    """
    start = 0
    while len(text) - start > most:
        end = start + most
        spaces = [match.end() for match in _ENDS.finditer(text, end - most // 100, end)]
        end = spaces[-1] if spaces else end
        piece = text[start:end]
        if not piece.isspace():
            yield piece
        start = end
    if not start or not (text[start:].isspace() or start == len(text)):
        yield text[start:]


def opened(file: Path) -> Tokenizer:
    """The tokenizer of a file, or of older files beside where it would be."""
    from tokenizers import Tokenizer

    if not file.is_file():
        return _converted(file.parent)
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
        raise MissingWeightsError(
            f"{file} is not a tokenizer: {error}", hint="It is the model's tokenizer.json."
        ) from error


def _converted(folder: Path) -> Tokenizer:
    """A tokenizer of the older files in a folder, as transformers reads them."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingWeightsError(
            f"{folder} has no tokenizer.json",
            hint=f"Get it from the model's page, or {format_install('anyrig[torch]')} to make one.",
        ) from error
    try:
        made: Tokenizer = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True
        ).backend_tokenizer
    except Exception as error:  # noqa: BLE001 - each kind of tokenizer raises its own
        raise MissingWeightsError(
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
