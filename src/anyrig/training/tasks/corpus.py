"""Texts of files or of a manifest as one long row of tokens on disk, and windows of it.

Whatever the readers of documents can read may be given: plain text is taken as it stands, the rest
by its words. A file or a row of a manifest that cannot be read is left out and named.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.storage.files import open_atomic, write_atomic
from anyrig.text import files
from anyrig.text import folder as folders
from anyrig.text.formats.limits import Limits
from anyrig.text.manifest import Resolve, Trouble, iterate_manifest, open_text
from anyrig.training.losses import IGNORED

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

    from anyrig.text.sandbox import ReaderPool

log = logging.getLogger(__name__)
_PIECE_BYTES = 1 << 20
_MAX_PIECES = 4096
_GROUP_CHARACTERS = 16 << 20
"""Of texts that are encoded at once, on all cores."""
_PLAIN = ("txt", "md", "csv")
_WILD = frozenset("*?[")


@dataclass
class Corpus:
    """Files whose text is wanted, or a manifest of such, and what was wrong with some."""

    paths: tuple[Path, ...]
    skipped: dict[str, str] = field(default_factory=dict)
    """Name or line -> why it was left out; filled while reading."""
    is_manifest: bool = False
    """Whether the only path is that of a manifest."""
    resolve: Resolve | None = None
    """Finds the files that the manifest names."""

    def pieces(self) -> Iterator[str | None]:
        """The texts in pieces of about a megabyte, with None after each."""
        from anyrig.text.sandbox import ReaderPool

        num_used = 0
        with ReaderPool() as pool:
            for place, file, text in self._list_texts():
                try:
                    yield from [text] if file is None else _read(file, pool)
                except AnyrigError as error:
                    self.skipped[place] = error.message
                    continue
                num_used += 1
                yield None
        if self.is_manifest and not num_used:
            why = "".join(f": {place}: {reason}" for place, reason in [*self.skipped.items()][:1])
            raise InvalidInputError(
                f"there is no text in {self.paths[0]}{why}",
                hint="A CSV with the column text or file, or JSON lines.",
            )

    def _list_texts(self) -> Iterator[tuple[str, Path | None, str]]:
        if not self.is_manifest:
            yield from ((str(path), path, "") for path in self.paths)
            return
        for row in iterate_manifest(self.paths[0], labelled=False, resolve=self.resolve):
            if isinstance(row, Trouble):
                self.skipped[row.place] = row.reason
            else:
                yield row.place, row.file, row.text


def _read(path: Path, pool: ReaderPool) -> Iterator[str]:
    with files.guard_reading(path, _limits()):
        plain = files.detect_format(path) in _PLAIN
    yield from _read_plain(path) if plain else [pool.read_file(path).text]


def _limits() -> Limits:
    """A text is read in pieces, so it may be as large as the disk."""
    return Limits(file_bytes=1 << 50)


def _read_plain(path: Path) -> Iterator[str]:
    """A text file as it stands: UTF-8 in pieces, all else by a look at the whole file."""
    with open_text(path, "Pass files with text.") as file:
        while lines := file.readlines(_PIECE_BYTES):
            yield "".join(lines).replace("\r\n", "\n")


def find_files(patterns: Sequence[str], start: Path) -> Corpus:
    """The files that paths, folders and patterns (`books/**/*.txt`) name, in a settled order."""
    places: list[Path] = []
    outside: list[Path] = []
    for pattern in patterns:
        whole = str(start / Path(pattern).expanduser())
        found = [whole]
        if _WILD & set(pattern) and not Path(whole).exists():
            matched = sorted(glob.glob(whole, recursive=True))
            fixed = _fixed_part(whole)
            found = [one for one in matched if folders.is_inside(one, fixed)]
            outside += [Path(one) for one in matched if one not in set(found)]
        if not found or not Path(found[0]).exists():
            raise InvalidInputError(
                f"there is no text at {whole}", hint=f"Relative paths begin at {start}."
            )
        places += [Path(one) for one in found]
    seen = folders.find(places)
    skipped = {
        str(one.path): one.reason for one in (*seen.skipped, *seen.unreadable, *seen.outside)
    } | {str(one): folders.LEADS_OUT for one in outside}
    if not seen.files:
        raise InvalidInputError(
            f"there is no text in {', '.join(map(str, places))}", hint="Pass files with text."
        )
    return Corpus(seen.files, skipped)


def _fixed_part(pattern: str) -> Path:
    """The folder that a pattern begins with: what it matches lies in it, or is reached by a link
    that leads out of it.
    """
    parts = Path(pattern).parts
    wild = next(at for at, part in enumerate(parts) if _WILD & set(part))
    return Path(*parts[:wild])


@dataclass(frozen=True)
class TokenFile:
    """A row of tokens in a file."""

    path: Path
    kind: str
    """`uint16` or `uint32`."""
    num_tokens: int
    num_bytes: int = 0
    """Of the text in UTF-8."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Files that are not in it, and why."""


def tokenize_corpus(
    run: Path,
    name: Sequence[str],
    open_corpus: Callable[[], Corpus],
    tokens: Tokens,
) -> TokenFile:
    """The text's tokens. A run goes on with those it began with: they lie in its folder, under what
    the corpus is called in the configuration.
    """
    digest = hashlib.sha256(json.dumps([*name, tokens.text()]).encode()).hexdigest()[:16]
    about = run / f"tokens-{digest}.json"
    kind = "uint16" if tokens.size <= 1 << 16 else "uint32"
    path = about.with_suffix(f".{kind}")
    cached = _read_cached(about, path, kind)
    if cached is not None:
        return cached
    found = open_corpus()
    num_tokens, num_bytes = _write(path, kind, found.pieces(), tokens)
    summary = {
        "tokens": num_tokens,
        "bytes": num_bytes,
        "skipped": found.skipped,
        "files": {str(one): _read_stamp(one) for one in found.paths},
    }
    write_atomic(about, json.dumps(summary, indent=1))
    return TokenFile(path, kind, num_tokens, num_bytes, found.skipped)


def open_token_file(path: Path, tokens: Tokens) -> TokenFile:
    """A row of tokens that somebody else wrote: bare numbers, of 32 bits if its name says so."""
    import numpy as np

    kind = "uint32" if path.suffix == ".uint32" else "uint16"
    width = 4 if kind == "uint32" else 2
    size = path.stat().st_size
    if not path.is_file() or size % width or not size:
        raise InvalidInputError(
            f"{path} is not a file of tokens of {8 * width} bits",
            hint="Numbers of 16 bits are expected, of 32 in a file called .uint32.",
        )
    row = np.memmap(path, dtype=kind, mode="r")
    highest = max(int(row[at : at + _PIECE_BYTES].max()) for at in range(0, len(row), _PIECE_BYTES))
    if highest >= tokens.size:
        raise InvalidInputError(
            f"{path} contains the token {highest}, the tokenizer has {tokens.size}",
            hint="Name the tokenizer that the row was made with.",
        )
    return TokenFile(path, kind, size // width)


def _read_cached(about: Path, path: Path, kind: str) -> TokenFile | None:
    """What an earlier start of the run wrote, if it is whole."""
    try:
        summary = json.loads(about.read_text(encoding="utf-8"))
        made = TokenFile(
            path,
            kind,
            int(summary["tokens"]),
            int(summary["bytes"]),
            dict(summary["skipped"]),
        )
        width = 2 if kind == "uint16" else 4
        if path.stat().st_size != made.num_tokens * width:
            return None
        changed = [
            one for one, was in summary["files"].items() if _read_stamp(Path(one)) not in ([], was)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if changed:
        log.warning(
            "%s changed since the run began; it goes on with the text it began with", changed[0]
        )
    return made


def _read_stamp(path: Path) -> list[int]:
    """What tells that a file changed; nothing if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


def _write(path: Path, kind: str, text: Iterator[str | None], tokens: Tokens) -> tuple[int, int]:
    import numpy as np

    num_tokens = num_bytes = 0
    end = np.asarray([] if tokens.end is None else [tokens.end], dtype=kind)
    with open_atomic(path) as file:
        for group in _group_pieces(text):
            texts = [piece for piece in group if piece is not None]
            encoded = tokens.encode(texts)
            for piece in group:
                row = end if piece is None else next(encoded).astype(kind)
                file.write(row.tobytes())
                num_tokens += len(row)
            num_bytes += sum(len(piece.encode("utf-8", "replace")) for piece in texts)
    return num_tokens, num_bytes


def _group_pieces(text: Iterator[str | None]) -> Iterator[list[str | None]]:
    """Pieces and the ends of texts, in groups that are encoded at once."""
    group: list[str | None] = []
    num_characters = 0
    for piece in text:
        group.append(piece)
        num_characters += len(piece or "")
        if num_characters >= _GROUP_CHARACTERS or len(group) >= _MAX_PIECES:
            yield group
            group, num_characters = [], 0
    if group:
        yield group


class TokenWindows:
    """Windows of a row of tokens, each one token longer than what a model sees of it.

    A window's last token is the next one's first: each token is the target of one window. The file
    is opened by whoever reads first, so the data set can be sent to another process.

    Args:
        row: the tokens.
        context: tokens that a model sees of a window.
        first: number of the first window.
        count: how many there are.
        end: the token that ends a document, to keep documents apart: `positions` then begin at 0
            with each, and its first token is no target, as nothing before it tells it.
    """

    def __init__(
        self, row: TokenFile, context: int, first: int, count: int, end: int | None = None
    ) -> None:
        self.row = row
        self.context = context
        self.first = first
        self.count = count
        self.end = end
        self._map: np.ndarray[Any, np.dtype[Any]] | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        import numpy as np

        if not 0 <= number < self.count:
            raise IndexError(number)
        if self._map is None:
            self._map = np.memmap(self.row.path, dtype=self.row.kind, mode="r")
        start = (self.first + number) * self.context
        window = self._map[start : start + self.context + 1].astype(np.int64)
        if self.end is None:
            return {"tokens": torch.from_numpy(window)}
        begins = np.concatenate(([True], window[:-1] == self.end))
        places = np.arange(len(window))
        positions = places - np.maximum.accumulate(np.where(begins, places, 0))
        return {
            "tokens": torch.from_numpy(window),
            "labels": torch.from_numpy(np.where(begins, IGNORED, window)),
            "positions": torch.from_numpy(positions[:-1]),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_map": None}


def split_windows(
    row: TokenFile, context: int, share: float, end: int | None = None
) -> tuple[TokenWindows, TokenWindows | None]:
    """Windows to train on, and those of the end, which are only measured; `end` keeps documents
    apart.
    """
    num_windows = (row.num_tokens - 1) // context
    if num_windows < 1:
        raise InvalidInputError(
            f"the text has {row.num_tokens} tokens, fewer than a window of {context + 1}",
            hint="Pass more text, or set a shorter context.",
        )
    num_validation = min(round(num_windows * share), num_windows - 1)
    if share > 0 and num_windows > 1:
        num_validation = max(num_validation, 1)
    num_train = num_windows - num_validation
    validation = (
        TokenWindows(row, context, num_train, num_validation, end) if num_validation else None
    )
    return TokenWindows(row, context, 0, num_train, end), validation


# -- tokenizers ------------------------------------------------------------------------------------
# Bytes as they are, a tokenizer's file, or one trained on the text; each can be kept as a
# `tokenizer.json` that other programs read.

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
