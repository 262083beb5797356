"""Cache keys: a hash of everything that shapes a result, and of nothing else.

A key is the SHA-256 of its parts as canonical JSON, so it is the same in every process, on every
platform and in every version of Python. `1`, `1.0`, `true` and `"1"` are four values, and text is
taken character by character (no Unicode normalisation: an engine may well pronounce `é` and `e´`
differently). Lists and tuples are equal. `-0.0` is `0.0`. NaN and infinities are refused, as they
equal nothing.

The device is not part of a key: the first accepted result is kept, wherever it was computed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from json.encoder import encode_basestring
from typing import TypeAlias

from anyrig.errors import InvalidInputError

JsonValue: TypeAlias = (
    "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
)
# A change of the canonical form, or of what a part means, is a new version: old keys then miss.
_VERSION = "k1"
_MAX_DEPTH = 64
_MAX_BITS = 4096  # Python refuses to print much longer integers


@dataclass(frozen=True)
class CacheKey:
    """What a unit of work is, as far as its result depends on it."""

    kind: str
    """What the result is: `speech`, `embedding`, `page`."""
    text: str
    """What is spoken, embedded or read; the SHA-256 of its bytes for an image or audio."""
    engine: str
    version: str
    """The engine's version: another one may answer differently."""
    weights: str
    """The hash of the model's weights."""
    voice: str = ""
    precision: str = "fp32"
    """The precision class: `fp32`, `half`, `int8`."""
    seed: int | None = None
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    """Everything else that shapes the result: speed, style, normalisation."""

    @property
    def digest(self) -> str:
        """The key under which the result is cached."""
        return make_key(**{part.name: getattr(self, part.name) for part in fields(self)})


def make_key(**parts: JsonValue) -> str:
    """The key of a result that is shaped by these parts: `k1-` and 64 hexadecimal digits."""
    text = f"anyrig {_VERSION}\n{to_canonical_json(parts)}"
    # A lone surrogate is not UTF-8 and still a character of the text: it is passed through, and so
    # differs from the pair that some encoders would join it to.
    return f"{_VERSION}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def make_key_function(**parts: JsonValue) -> Callable[[str], str]:
    """A function of a text that returns `make_key(text=text, **parts)`, faster.

    The common parts are hashed once, so their names must sort before `text`.
    """
    assert all(name < "text" for name in parts), "the text must come last"
    head, _, tail = to_canonical_json({**parts, "text": ""}).rpartition('""')
    prefix = hashlib.sha256(f"anyrig {_VERSION}\n{head}".encode("utf-8", "surrogatepass"))

    def make_text_key(text: str) -> str:
        whole = prefix.copy()
        whole.update((encode_basestring(str.__str__(text)) + tail).encode("utf-8", "surrogatepass"))
        return f"{_VERSION}-{whole.hexdigest()}"

    return make_text_key


def to_canonical_json(value: JsonValue) -> str:
    """JSON with sorted names and without spaces; equal values give equal text."""
    return json.dumps(
        _normalize(value, ""), sort_keys=True, ensure_ascii=False, allow_nan=False,
        separators=(",", ":"),
    )  # fmt: skip


def _normalize(value: object, path: str, depth: int = 0) -> object:
    """The value in exact built-in types; whatever JSON would change silently is refused."""
    if depth > _MAX_DEPTH:
        raise InvalidInputError(
            f"{path[:40]}... is nested too deeply for a cache key", hint="Flatten it."
        )
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # a str enum would print its name
    if isinstance(value, (int, float)):
        return _normalize_number(value, path)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise InvalidInputError(
                    f"a name in {path or 'the parts'} is of type {_type_name(name)}, not str",
                    hint="JSON would turn it into text, so that 1 and '1' were equal.",
                )
        return {
            str.__str__(name): _normalize(inner, f"{path}.{name}".lstrip("."), depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            _normalize(inner, f"{path}[{number}]", depth + 1) for number, inner in enumerate(value)
        ]
    raise InvalidInputError(
        f"{path or 'the value'} is of type {_type_name(value)}, which a cache key cannot contain",
        hint=_HINTS.get(type(value).__name__, "Use text, numbers, booleans, None, lists or dicts."),
    )


_HINTS = {
    "bytes": "Use the SHA-256 of the bytes, as text.",
    "bytearray": "Use the SHA-256 of the bytes, as text.",
    "set": "Use a sorted list: a set has no order.",
    "frozenset": "Use a sorted list: a set has no order.",
    "PosixPath": "Use the hash of the file's content: a path says nothing about it.",
    "WindowsPath": "Use the hash of the file's content: a path says nothing about it.",
}


def _normalize_number(value: float, path: str) -> int | float:
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise InvalidInputError(
                f"{path or 'the value'} is too large a number", hint="Use text."
            )
        return int.__int__(value)
    if not math.isfinite(value):
        raise InvalidInputError(
            f"{path or 'the value'} is {value}", hint="Use a finite number or None."
        )
    return float.__float__(value) + 0.0  # -0.0 + 0.0 is 0.0


def _type_name(value: object) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"
