"""The key of a result: made of everything that shapes it, and of nothing else.

A key is the SHA-256 of the parts written down in one canonical way, so it is the same in every
process, on every platform and in every version of Python. What is written differently is
different: `1`, `1.0`, `true` and `"1"` are four values, and text is taken character by character
(no Unicode normalisation: an engine may well say `é` and `e´` differently). Lists and tuples
are one thing. `-0.0` is `0.0`. NaN and the infinities are refused, as they equal nothing.

The device is no part of a key: the first accepted take is kept, wherever it was made.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring

from anyrig.errors import InvalidInputError

# A change of the canonical form, or of what a part means, is a new version: old keys then miss.
VERSION = "k1"
Plain = None | bool | int | float | str | Sequence["Plain"] | Mapping[str, "Plain"]
_DEEPEST = 64
_LONGEST_BITS = 4096  # Python refuses to print much longer ones


@dataclass(frozen=True)
class Segment:
    """The unit of work, as far as its result depends on it."""

    kind: str
    """What the result is: `speech`, `embedding`, `page`."""
    text: str
    """What is spoken, embedded or read; the SHA-256 of its bytes for an image or a sound."""
    engine: str
    version: str
    """The engine's version: another one may answer differently."""
    weights: str
    """The hash of the model's weights."""
    voice: str = ""
    precision: str = "fp32"
    """The class of number format: `fp32`, `half`, `int8`."""
    seed: int | None = None
    options: Mapping[str, Plain] = field(default_factory=dict)
    """Every other thing that shapes the result: speed, style, normalisation."""

    @property
    def key(self) -> str:
        """The key under which the result is kept."""
        return key(
            kind=self.kind, text=self.text, engine=self.engine, version=self.version,
            weights=self.weights, voice=self.voice, precision=self.precision, seed=self.seed,
            options=self.options,
        )  # fmt: skip


def key(**parts: Plain) -> str:
    """The key of a result that is shaped by these parts: `k1-` and 64 hexadecimal digits."""
    written = f"anyrig {VERSION}\n{canonical(parts)}"
    # A lone surrogate is no UTF-8 and still a character of the text: it is passed through, and so
    # differs from the pair that some encoders would join it to.
    return f"{VERSION}-{hashlib.sha256(written.encode('utf-8', 'surrogatepass')).hexdigest()}"


def series(**parts: Plain) -> Callable[[str], str]:
    """The keys of many texts with all other parts in common: `key(text=text, **parts)`, faster.

    The common parts are written and hashed once. Their names stand before `text` in the alphabet.
    """
    assert all(name < "text" for name in parts), "the text must come last"
    head, _, tail = canonical({**parts, "text": ""}).rpartition('""')
    begun = hashlib.sha256(f"anyrig {VERSION}\n{head}".encode("utf-8", "surrogatepass"))

    def of(text: str) -> str:
        whole = begun.copy()
        whole.update((encode_basestring(str.__str__(text)) + tail).encode("utf-8", "surrogatepass"))
        return f"{VERSION}-{whole.hexdigest()}"

    return of


def canonical(value: Plain) -> str:
    """A value in the one way to write it: JSON with sorted names and without spaces."""
    return json.dumps(
        _plain(value, ""), sort_keys=True, ensure_ascii=False, allow_nan=False,
        separators=(",", ":"),
    )  # fmt: skip


def _plain(value: object, place: str, depth: int = 0) -> object:
    """The value in exact built-in types; whatever JSON would bend is refused."""
    if depth > _DEEPEST:
        raise InvalidInputError(f"{place[:40]}... is too deep for a key", hint="Flatten it.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # a str enum would print its name
    if isinstance(value, (int, float)):
        return _number(value, place)
    if isinstance(value, Mapping):
        _only_text_names(value, place)
        return {
            str.__str__(name): _plain(inner, f"{place}.{name}".lstrip("."), depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            _plain(inner, f"{place}[{number}]", depth + 1) for number, inner in enumerate(value)
        ]
    raise InvalidInputError(
        f"{place or 'the value'} is {_named(value)}, which is no plain data",
        hint=_HINTS.get(type(value).__name__, "Give text, numbers, booleans, None, lists, dicts."),
    )


_HINTS = {
    "bytes": "Give the SHA-256 of the bytes as text.",
    "bytearray": "Give the SHA-256 of the bytes as text.",
    "set": "Give a sorted list: a set has no order.",
    "frozenset": "Give a sorted list: a set has no order.",
    "PosixPath": "Give the file's content hash: a path says nothing of what is in it.",
    "WindowsPath": "Give the file's content hash: a path says nothing of what is in it.",
}


def _number(value: float, place: str) -> int | float:
    if isinstance(value, int):
        if value.bit_length() > _LONGEST_BITS:
            raise InvalidInputError(
                f"{place or 'the value'} is too large a number", hint="Give text."
            )
        return int.__int__(value)
    if not math.isfinite(value):
        raise InvalidInputError(
            f"{place or 'the value'} is {value}", hint="Give a finite number or None."
        )
    return float.__float__(value) + 0.0  # -0.0 + 0.0 is 0.0


def _only_text_names(value: Mapping[object, object], place: str) -> None:
    for name in value:
        if not isinstance(name, str):
            raise InvalidInputError(
                f"a name in {place or 'the parts'} is {_named(name)}, not text",
                hint="JSON would turn it into text, and 1 and '1' would be one.",
            )


def _named(value: object) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"of type {module}{kind.__qualname__}"
