"""JSON of result dataclasses: derived from their fields.

    @dataclass(frozen=True)
    class BookSample:
        file: Path
        audio_s: float = field(metadata=in_json(digits=3))
        is_cached: bool = field(default=False, metadata=in_json("cached"))

        json_properties = {"minutes": "num_minutes"}

    to_json(BookSample(...))  # {"file": "a.wav", "audio_s": 1.235, "cached": false, "minutes": 2}

`json_properties` adds properties, and constants of the class, by the names they get. A class whose
JSON is of another form has a method `to_json()` without arguments, which is called wherever the
value is part of another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any


def in_json(
    name: str = "", *, digits: int | None = None, omit: bool = False, omit_empty: bool = False
) -> Mapping[str, Any]:
    """Metadata for a field: how `to_json` writes it.

    Args:
        name: its name in JSON, if it is not the field's.
        digits: round numbers to so many decimals, those in lists and mappings too.
        omit: leave it out.
        omit_empty: leave it out where it is None, false, zero or empty.
    """
    return {"json": {"name": name, "digits": digits, "omit": omit, "omit_empty": omit_empty}}


def to_json(value: Any) -> Any:
    """A value as JSON: dataclasses and named tuples are objects, NaN and infinity are null."""
    return _convert(value, None)


def fields_to_json(value: Any) -> dict[str, Any]:
    """A dataclass by its fields and `json_properties`, for a `to_json` method that adds to them."""
    data = {}
    for item in fields(value):
        rules = item.metadata.get("json", {})
        content = getattr(value, item.name)
        if not rules.get("omit") and (content or not rules.get("omit_empty")):
            name = rules.get("name") or item.name
            data[name] = _convert(content, rules.get("digits"))
    for name, attribute in getattr(value, "json_properties", {}).items():
        data[name] = to_json(getattr(value, attribute))
    return data


def _convert(value: Any, digits: int | None) -> Any:
    if value is None or isinstance(value, bool | int | str) and not isinstance(value, Enum):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else round(value, digits)
    if isinstance(value, Enum):
        return _convert(value.value, digits)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    return _convert_container(value, digits)


def _convert_container(value: Any, digits: int | None) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return fields_to_json(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(_convert(key, None)): _convert(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_convert(one, digits) for one in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")
