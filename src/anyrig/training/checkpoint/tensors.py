"""Tensors in a safetensors file: written in one pass with the hash of what is written.

The format is a length, a header in JSON and the bytes. It is written and read here because the
library would have all of a file's bytes in memory at once and the file read twice for its hash.

Types that the format lacks are kept as bytes; what they are is said in the header's own metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch

from anyrig.errors import InvalidInputError

_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.uint8: "U8",
    torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_BLOCK = 16 << 20
_METADATA, _DETAILS = "__metadata__", "anyrig"


class Wrote(NamedTuple):
    """A file that is on the disk."""

    num_bytes: int
    sha256: str


class Hashing:
    """A file whose bytes are hashed on their way."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        self._sum = hashlib.sha256()
        self._count = 0

    def write(self, data: Any) -> None:
        """All of it, in pieces that leave other threads their turn."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _BLOCK):
            piece = view[start : start + _BLOCK]
            self._sum.update(piece)
            while len(piece):
                piece = piece[self._file.write(piece) :]
        self._count += len(view)

    def end(self) -> Wrote:
        """Close it once it is on the disk."""
        os.fsync(self._file.fileno())
        self._file.close()
        return Wrote(self._count, self._sum.hexdigest())

    def abandon(self) -> None:
        """Close it as it is."""
        self._file.close()


def write_bytes(path: Path, data: bytes) -> Wrote:
    """A small file."""
    file = Hashing(path)
    try:
        file.write(data)
        return file.end()
    finally:
        file.abandon()


def write(path: Path, tensors: Mapping[str, torch.Tensor]) -> Wrote:
    """Tensors of the host's memory; dense ones keep the order of their sides (channels last)."""
    header, at, details = {}, 0, {}
    for name, tensor in tensors.items():
        if name == _METADATA:
            raise InvalidInputError(
                f"a weight is called {name}", hint="That name is the format's own."
            )
        kind, shape = _NAMES.get(tensor.dtype, "U8"), list(tensor.shape)
        detail: dict[str, Any] = {}
        if tensor.dtype not in _NAMES:
            detail, shape = {"dtype": str(tensor.dtype)[6:], "shape": shape}, [tensor.nbytes]
        if not tensor.is_contiguous():
            detail["stride"] = list(tensor.stride())
        if detail:
            details[name] = detail
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    metadata = {"format": "pt"} | ({_DETAILS: json.dumps(details)} if details else {})
    return _write(path, {_METADATA: metadata, **header}, tensors)


def _write(path: Path, header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Wrote:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file = Hashing(path)
    try:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            if tensor.nbytes:
                file.write(_bytes(tensor))
        return file.end()
    finally:
        file.abandon()


def _bytes(tensor: torch.Tensor) -> Any:
    """The tensor's memory, in the order of its sides."""
    flat = tensor.detach().contiguous().reshape(-1)
    if sys.byteorder == "big":
        raise InvalidInputError(
            "this machine writes numbers the other way", hint="Use another machine."
        )
    return flat.view(torch.uint8).numpy()


def read(path: Path) -> tuple[dict[str, torch.Tensor], str]:
    """The tensors of a file, and the file's hash; ValueError for what is no such file.

    In memory of their own, not mapped: a file that is cut short later cannot hurt a run.
    """
    whole = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        start = _exactly(file, 8)
        length = int.from_bytes(start, "little")
        if length > size - 8:
            raise ValueError("its header is longer than the file")
        text = _exactly(file, length)
        whole.update(start + text)
        header = json.loads(text)
        details = json.loads(header.pop(_METADATA, {}).get(_DETAILS, "{}"))
        found, at = {}, 0
        for name, row in header.items():
            begin, end = row["data_offsets"]
            if begin != at or not begin <= end <= size - 8 - length:
                raise ValueError(f"{name} is not where it should be")
            data = torch.empty(end - begin, dtype=torch.uint8)
            _fill(file, data, whole)
            found[name] = _restored(data, row, details.get(name, {}))
            at = end
        if file.read(1):
            raise ValueError("there is more in it than tensors")
    return found, whole.hexdigest()


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError("it is truncated")
    return data


def _fill(file: BinaryIO, data: torch.Tensor, whole: hashlib._Hash) -> None:
    view = memoryview(data.numpy().data)
    for start in range(0, len(view), _BLOCK):
        piece = view[start : start + _BLOCK]
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]  # a buffered file
            raise ValueError("it is truncated")
        whole.update(piece)


def _restored(
    data: torch.Tensor, row: Mapping[str, Any], detail: Mapping[str, Any]
) -> torch.Tensor:
    dtype: Any = _DTYPES[row["dtype"]]
    shape = row["shape"]
    if "dtype" in detail:
        dtype, shape = getattr(torch, detail["dtype"], None), detail["shape"]
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{detail['dtype']} is not a supported dtype")
    if not data.numel():
        data = torch.empty(0, dtype=dtype)
    tensor = data.view(dtype).reshape(shape)
    if "stride" in detail:
        like = torch.empty_strided(tensor.shape, detail["stride"], dtype=dtype)
        tensor = like.copy_(tensor)
    return tensor
