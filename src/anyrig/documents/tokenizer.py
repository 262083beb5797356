"""Texts to tokens, long ones in windows.

The tokenizers library works on all cores and releases the interpreter meanwhile. One process makes
at most 42,000 texts a second of it on 16 cores, 16 processes 90,000: `TokenizerProcesses`.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.errors import MissingWeightsError
from anyrig.install import format_install

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

_MIN_STRIDE = 16
MAX_PIECE, _MAX_CALL = 100_000, 250_000
"""Characters that the tokenizer is given as one text, and in all: it takes up to 460 bytes for each
of them, so a longer text goes in pieces and many texts one after the other."""
_SPACE = re.compile(r"\s")


class TextWindows(NamedTuple):
    """Texts as windows of tokens."""

    tokens: NDArray[np.int32]
    """Of all windows, one after the other, with the special ones at the ends of each."""
    lengths: NDArray[np.int32]
    owners: NDArray[np.int32]
    """For each window, the number of its text; in order."""
    encodings: Sequence[Encoding] = ()
    """Of each window, if offsets were requested."""
    texts: Sequence[str] = ()
    """Of each window, for a model that takes texts."""


class TextTokenizer:
    """A tokenizer.json with the window of a model.

    Args:
        file: its path.
        longest: the most tokens of a window, those at its ends included.
        overlap: tokens that two windows of a long text share.
        cut: whether a long text has only its first window.
        lower: whether texts are lowercased first, as sentence-transformers does for some models.
        offsets: whether each window's `Encoding` is kept.
    """

    def __init__(
        self,
        file: Path,
        *,
        longest: int,
        overlap: int = 0,
        cut: bool = False,
        lower: bool = False,
        offsets: bool = False,
    ) -> None:
        tokenizer = open_tokenizer(file)
        tokenizer.no_padding()
        ends = tokenizer.num_special_tokens_to_add(False)
        self._stride = min(overlap, max(0, longest - ends - _MIN_STRIDE))
        tokenizer.enable_truncation(longest, stride=self._stride)
        self._tokenizer, self.longest = tokenizer, longest
        self._cut, self._lower, self._offsets = cut, lower, offsets

    def split(self, texts: Sequence[str], prompt: str = "") -> TextWindows:
        """The windows of all texts; each begins with the prompt."""
        import numpy as np

        tokens: list[Sequence[int]] = []
        owners: list[int] = []
        encodings: list[Encoding] = []
        before = self._encode_prompt(prompt)
        for number, encoding in self._encode_all(texts, prompt):
            parts = [encoding] if self._cut else [encoding, *encoding.overflowing]
            rows: Sequence[Sequence[int]] = [part.ids or (0,) for part in parts]
            if len(rows) > 1 and before:
                rows = self._repeat_prompt(encoding, rows, before)
            tokens += rows
            owners += [number] * len(rows)
            if self._offsets:
                encodings += parts
        lengths = np.fromiter(map(len, tokens), np.int32, len(tokens))
        flat = np.fromiter(chain.from_iterable(tokens), np.int32, int(lengths.sum()))
        return TextWindows(flat, lengths, np.array(owners, np.int32), encodings)

    def count_cut(self, texts: Sequence[str], prompt: str = "") -> int:
        """How many texts have more than one window."""
        longer = {n for n, encoding in self._encode_all(texts, prompt) if encoding.overflowing}
        return len(longer | {n for n, text in enumerate(texts) if len(text) > MAX_PIECE})

    def _encode_all(self, texts: Sequence[str], prompt: str) -> Iterator[tuple[int, Encoding]]:
        """The number of a text and the encoding of one of its pieces, as many as fit in memory."""
        if self._lower:
            texts, prompt = [text.lower() for text in texts], prompt.lower()
        numbers: list[int] = []
        pieces: list[str] = []
        size = 0
        for number, text in enumerate(texts):
            for place, piece in enumerate(split_pieces(text)):
                if place and self._cut:
                    break
                if pieces and size + len(piece) > _MAX_CALL:
                    yield from zip(numbers, self._encode(pieces), strict=True)
                    numbers, pieces, size = [], [], 0
                numbers.append(number)
                pieces.append(prompt + piece)
                size += len(piece)
        yield from zip(numbers, self._encode(pieces), strict=True)

    def _repeat_prompt(
        self, encoding: Encoding, rows: Sequence[Sequence[int]], before: Sequence[int]
    ) -> list[Sequence[int]]:
        """The windows of a text whose first one begins with the prompt, so that each does."""
        mask = encoding.special_tokens_mask
        head, tail = mask.index(0), mask[::-1].index(0)
        inner = [row[head : len(row) - tail] for row in rows]
        tokens = [*inner[0], *chain.from_iterable(row[self._stride :] for row in inner[1:])]
        # Where the end of the prompt and the text make one token, that stays with the text.
        common = next(
            (n for n, (a, b) in enumerate(zip(before, tokens, strict=False)) if a != b), len(before)
        )
        tokens = tokens[common:]
        size = self.longest - head - tail - len(before)
        step = size - min(self._stride, max(0, size - _MIN_STRIDE))
        first = rows[0]
        return [
            [*first[:head], *before, *tokens[start : start + size], *first[len(first) - tail :]]
            for start in range(0, max(1, len(tokens) - size + step), step)
        ]

    def _encode_prompt(self, prompt: str) -> list[int]:
        """The tokens of a prompt; none if it leaves a window no room for a text."""
        if not prompt.strip():
            return []
        prompt = prompt.lower() if self._lower else prompt
        (encoding,) = self._encode([prompt.rstrip()])
        pairs = zip(encoding.ids, encoding.special_tokens_mask, strict=True)
        room = self.longest - len(encoding.ids)
        fits = room >= _MIN_STRIDE and not encoding.overflowing
        return [token for token, special in pairs if not special] if fits else []

    def _encode(self, texts: list[str]) -> list[Encoding]:
        tokenizer = self._tokenizer
        encode = tokenizer.encode_batch if self._offsets else tokenizer.encode_batch_fast
        try:
            return encode(texts)
        except (UnicodeEncodeError, TypeError):  # half a character, as broken files have
            return encode([text.encode("utf-8", "replace").decode() for text in texts])


class TokenizerProcesses:
    """Processes that tokenize while the GPU computes, for a worker that is limited by this.

    Args:
        count: how many.
        options: of a `TextTokenizer`.
    """

    def __init__(self, count: int, options: dict[str, Any]) -> None:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        self._pool = ProcessPoolExecutor(
            count, multiprocessing.get_context("spawn"), _start_process, (options,)
        )

    def split(self, texts: Sequence[str], prompt: str) -> Future[TextWindows]:
        return self._pool.submit(_split_in_process, texts, prompt)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


_of_process: TextTokenizer | None = None


def _start_process(options: dict[str, Any]) -> None:
    global _of_process  # noqa: PLW0603 - what an initializer prepares
    import multiprocessing

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)  # a killed worker cannot end it

    threading.Thread(target=follow_parent, daemon=True).start()
    _of_process = TextTokenizer(**options)


def _split_in_process(texts: Sequence[str], prompt: str) -> TextWindows:
    assert _of_process is not None
    return _of_process.split(texts, prompt)


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> int:
    """How many tokens texts are, without those at their ends."""
    total, some, size = 0, list[str](), 0

    def count_some() -> int:
        return sum(map(len, tokenizer.encode_batch_fast(some, add_special_tokens=False)))

    for text in texts:
        for piece in split_pieces(text.encode("utf-8", "replace").decode()):
            if some and size + len(piece) > _MAX_CALL:
                total, some, size = total + count_some(), [], 0
            some.append(piece)
            size += len(piece)
    return total + count_some()


def split_pieces(text: str, most: int = MAX_PIECE) -> Iterator[str]:
    """A text in pieces of at most so many characters, split between words if possible.

    Pieces of nothing but spaces are left out.
    """
    start = 0
    while len(text) - start > most:
        end = start + most
        spaces = [match.end() for match in _SPACE.finditer(text, end - most // 100, end)]
        end = spaces[-1] if spaces else end
        piece = text[start:end]
        if not piece.isspace():
            yield piece
        start = end
    if not start or not (text[start:].isspace() or start == len(text)):
        yield text[start:]


def open_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer of a file, or of older files beside where it would be."""
    from tokenizers import Tokenizer

    if not file.is_file():
        return _convert_tokenizer(file.parent)
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises a bare Exception
        raise MissingWeightsError(
            f"{file} is not a tokenizer: {error}", hint="It is the model's tokenizer.json."
        ) from error


def _convert_tokenizer(folder: Path) -> Tokenizer:
    """A tokenizer of the older files in a folder, as transformers reads them."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingWeightsError(
            f"{folder} has no tokenizer.json",
            hint=f"Get it from the model's page, or {format_install('anyrig[torch]')} to make one.",
        ) from error
    try:
        tokenizer: Tokenizer = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True
        ).backend_tokenizer
    except Exception as error:  # noqa: BLE001 - each kind of tokenizer raises its own
        raise MissingWeightsError(
            f"{folder} has no tokenizer that can be read: {str(error).splitlines()[0]}",
            hint="It needs the model's tokenizer.json.",
        ) from error
    return tokenizer


def read_max_tokens(folder: Path, default: int) -> int:
    """How many tokens a model of a folder was made for, as its files say."""
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        try:
            value = json.loads((folder / name).read_text(encoding="utf-8")).get(key)
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(value, int) and 0 < value <= default:
            return value
    return default
