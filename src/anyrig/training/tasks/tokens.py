"""Text to numbers and back: bytes as they are, a tokenizer's file, or one trained on the text.

All of them are tokenizers of the `tokenizers` library in the end, so each can be kept as a
`tokenizer.json` that other programs read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError
from anyrig.storage.files import write_atomic

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

END = "<|endoftext|>"
"""What stands between two texts."""
_ENDS = (END, "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>", "[SEP]")


class Tokens:
    """A tokenizer; what the text itself says of special tokens is plain text."""

    def __init__(self, tokenizer: Tokenizer, *, is_bytes: bool = False, end_word: str = "") -> None:
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True
        self._is_bytes = is_bytes
        self.size: int = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())
        """How many rows a model's embedding needs."""
        words = (end_word, *_ENDS)
        there = (word for word in words if word and tokenizer.token_to_id(word) is not None)
        self.end_word: str | None = next(there, None)
        """What ends a text, as it is written."""
        self.end: int | None = tokenizer.token_to_id(self.end_word) if self.end_word else None
        """Its number."""

    def encode(self, texts: Sequence[str]) -> Iterator[np.ndarray[Any, np.dtype[Any]]]:
        """The tokens of each text."""
        import numpy as np

        if self._is_bytes:
            for text in texts:
                data = text.encode("utf-8", "replace")
                yield np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
            return
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        for found in self._tokenizer.encode_batch_fast(clean, add_special_tokens=False):
            yield np.asarray(found.ids, dtype=np.uint32)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; what ends one is left out."""
        return str(self._tokenizer.decode([one for one in tokens if one != self.end]))

    def save(self, path: Path) -> None:
        """Write the `tokenizer.json`."""
        write_atomic(path, self.text())

    def text(self) -> str:
        """What stands in the `tokenizer.json`; equal tokenizers have equal ones."""
        return str(self._tokenizer.to_str(pretty=True))


def build_byte_tokenizer() -> Tokens:
    """Each byte of UTF-8 is a token of its own value; 256 ends a text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {sign: byte for byte, sign in enumerate(_byte_characters())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return Tokens(tokenizer, is_bytes=True)


def _byte_characters() -> list[str]:
    """The sign by which byte-level tokenizers write each byte: printable ones are themselves."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in plain)
    moved = {byte: chr(256 + number) for number, byte in enumerate(others)}
    return [chr(byte) if byte in plain else moved[byte] for byte in range(256)]


def train_tokenizer(texts: Iterable[str], size: int) -> Tokens:
    """A byte-level BPE of so many tokens made from texts; the same texts give the same one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if size < 257:
        raise InvalidInputError(
            f"a vocabulary of {size} is too small", hint="It needs 256 bytes and an end: 257 up."
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return Tokens(tokenizer)


def load_tokenizer(path: Path) -> Tokens:
    """The tokenizer in a `tokenizer.json`, or in a folder that has one."""
    from tokenizers import Tokenizer

    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if path.is_dir() and not file.exists():
            tokenizer = _load_older(path)
        else:
            tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises plain ones for whatever is wrong
        raise InvalidInputError(
            f"{file} is not a tokenizer that can be read: {error}",
            hint='Give a tokenizer.json, or set tokenizer = "bytes" or "train".',
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Tokens(tokenizer, end_word=_read_end_word(path) if path.is_dir() else "")


def _read_end_word(folder: Path) -> str:
    """The `eos_token` of transformers' tokenizer_config.json; empty if there is none."""
    try:
        found = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        word = found.get("eos_token") or ""
        return str(word["content"] if isinstance(word, dict) else word)
    except (OSError, ValueError, KeyError, AttributeError):
        return ""


def _load_older(folder: Path) -> Tokenizer:
    """Of a folder from before tokenizer.json, with a vocabulary's files; no code of it is run."""
    from transformers import AutoTokenizer

    found = AutoTokenizer.from_pretrained(
        str(folder), local_files_only=True, trust_remote_code=False
    )
    tokenizer: Tokenizer = found.backend_tokenizer
    return tokenizer
