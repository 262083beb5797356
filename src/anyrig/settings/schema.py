"""Settings described as dataclasses: their keys, types and accepted values.

A schema is a dataclass with a default for every field. A field is a setting (bool, int, float, str
or a Literal of strings) or a section: another such dataclass. The key of a field in a section is
`section.field`. Fields made with `setting` carry further rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, get_args, get_type_hints

from anyrig.errors import InvalidSettingError
from anyrig.units import is_whole_number

T = TypeVar("T")
Value = bool | int | float | str
BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def setting(default: Any, **rules: Any) -> Any:
    """Make a dataclass field; the rules are attributes of `Setting`."""
    return field(default=default, metadata=rules)


@dataclass(frozen=True)
class Setting:
    """One key of a schema and the values it accepts."""

    key: str
    kind: type
    choices: tuple[str, ...] = ()
    normalize: Callable[[str], str | None] | None = None
    """Maps other spellings to a choice."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    unit: str = ""
    restricted: bool = False
    """A file found in the working directory may not set it: the file comes with whatever folder a
    user happens to be in, and must not decide where texts are sent, who may call the server, or
    where files are written."""
    restricted_unless: Value | None = None
    """The one value of a restricted setting that such a file may set."""
    restricted_with: str = ""
    """Another key. Such a file may not set this one if it, or another such file, sets that one."""
    legacy_variables: tuple[str, ...] = ()
    """Environment variables of the programs that anyrig replaces."""
    read_legacy: Callable[[Mapping[str, str]], tuple[str, str] | None] | None = None
    """Derives the value from several legacy variables; returns it with the variable's name."""

    def parse(self, value: Any, source: str) -> Value:
        """Convert and check a value; `source` is named in the error."""
        parsed = self._convert(value)
        if parsed is None or not self.accepts(value):
            raise InvalidSettingError(
                f"invalid value for {self.key}: {value!r} ({source})",
                hint=f"{self.key} must be {self._describe_accepted()}.",
            )
        return parsed

    def accepts(self, value: Any) -> bool:
        """Whether a value is of the right type and within its bounds."""
        parsed = self._convert(value)
        if parsed is None or isinstance(parsed, str):
            return parsed is not None and (not self.choices or parsed in self.choices)
        return (
            (self.ge is None or parsed >= self.ge)
            and (self.gt is None or parsed > self.gt)
            and (self.le is None or parsed <= self.le)
            and (self.lt is None or parsed < self.lt)
        )

    def is_restricted(self, value: Any, untrusted_keys: set[str]) -> bool:
        """Whether a file in the working directory may not set this value.

        Args:
            value: as the file has it.
            untrusted_keys: all keys that files in the working directory set.
        """
        if self.restricted_with in untrusted_keys:
            return True
        allowed = self.restricted_unless
        return self.restricted and (allowed is None or self._convert(value) != allowed)

    def _convert(self, value: Any) -> Value | None:
        text = str(value).strip()
        if self.kind is bool:
            return BOOLEANS.get(text.lower())
        if self.kind is int:
            return int(text) if is_whole_number(text.removeprefix("-")) else None
        if self.kind is float:
            try:
                number = float(text)
            except ValueError:
                return None
            return number if math.isfinite(number) else None
        if isinstance(value, (bool, dict, list)):
            return None
        return (self.normalize and self.normalize(text)) or str(value)

    def _describe_accepted(self) -> str:
        if self.kind is bool:
            return "true or false"
        if self.choices:
            return f"one of: {', '.join(self.choices)}"
        if self.kind is str:
            return "text"
        if self.ge is not None and self.le is not None:
            bounds = [f"between {self.ge:g} and {self.le:g}"]
        else:
            limits = (
                ("at least", self.ge), ("greater than", self.gt),
                ("at most", self.le), ("less than", self.lt),
            )  # fmt: skip
            bounds = [f"{words} {limit:g}" for words, limit in limits if limit is not None]
        number = "a whole number" if self.kind is int else "a number"
        return " ".join(filter(None, [number, " and ".join(bounds), self.unit]))


def list_settings(schema: type) -> Mapping[str, Setting]:
    """List the settings of a schema by key."""
    settings: dict[str, Setting] = {}
    hints = get_type_hints(schema)
    for item in fields(schema):
        kind = hints[item.name]
        if is_dataclass(kind) and isinstance(kind, type):
            for name, inner in list_settings(kind).items():
                key = f"{item.name}.{name}"
                settings[key] = replace(inner, key=key)
        else:
            choices = get_args(kind)
            rules = {"choices": choices, **item.metadata}
            settings[item.name] = Setting(item.name, str if choices else kind, **rules)
    return settings


def build_settings(schema: type[T], values: Mapping[str, Value]) -> T:
    """Make an instance of a schema from parsed values by key."""
    defaults: Any = schema()
    sections: dict[str, dict[str, Value]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    changes: dict[str, Any] = sections.pop("", {})
    for section, values_of in sections.items():
        changes[section] = replace(getattr(defaults, section), **values_of)
    built: T = replace(defaults, **changes)
    return built
