"""Options defined once, as fields of a request.

    @dataclass(frozen=True, kw_only=True)
    class SpeechRequest:
        rate: float = option(1.0, "speaking rate; 2 is twice as fast", ge=0.25, le=4)

Command-line flags, HTTP schemas, stored jobs, settings and the tables of the documentation are all
derived from such a class. A field is a bool, int, float, str, Path, a Literal of strings, a tuple
of one of these, or a mapping of names to values; `| None` means that it may be unset.
"""

from __future__ import annotations

import math
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from anyrig.errors import (
    InvalidOptionError,
    Message,
    OptionRef,
    UnknownOptionError,
)
from anyrig.units import is_whole_number

T = TypeVar("T")
Shape = Literal["single", "list", "mapping"]
BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string"}


@dataclass(frozen=True)
class Option:
    """What one field of a request accepts, and how it is described."""

    name: str
    kind: type
    """bool, int, float, str or Path; of the items, for a list or a mapping."""
    shape: Shape = "single"
    required: bool = False
    default: Any = None
    help: str = ""
    choices: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Values that other requests accept and this one does not, with the reason."""
    normalize: Callable[[str], str | None] | None = None
    """Maps other spellings to a choice, or to a number: 96k to 96000."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    unit: str = ""
    metavar: str = ""
    """How the value is called in the help of the command."""
    short: str = ""
    """A short flag: `-o`."""
    positional: bool = False
    """On the command line it stands without a flag."""
    flag: bool = True
    """Whether the command has a flag for it."""
    const: str = ""
    """The value of the flag if it is given without one."""
    setting: str = ""
    """Key of the settings that is its default: `speech.rate`. Where the class has the attribute
    `settings_section`, every option has one: the section and its name."""
    fill: bool = True
    """Whether `Rig.request` takes the setting as the value; otherwise the ability looks it up, as
    one that is wrong is a warning there and not an error."""
    alias: str = ""
    """Another name that Python programs may use: `text` for `texts`."""
    excludes: str = ""
    """Another option that may not be given together with it."""
    restricted: bool = False
    """A settings file found in the working directory may not set it: the file comes with whatever
    folder a user happens to be in, and must not decide where texts are sent, who may call the
    server, or where files are written."""
    restricted_unless: bool | None = None
    """The one value of a restricted option that such a file may set."""
    restricted_with: str = ""
    """A key of the settings. Such a file may not set this one if it, or another such file, sets
    that one."""
    http: bool = True
    """Whether an HTTP client may set it."""
    upload: bool = False
    """Over HTTP it is a file that was uploaded before."""
    group: str = ""
    """Title of the options it belongs to: the first line of its class's docstring."""

    @property
    def flag_name(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def parse_text(self, text: str) -> Any:
        """Parse one value of a flag, an environment variable or a settings file."""
        text = text.strip() if self.kind is not str else text
        spelled = (self.normalize and self.normalize(text.strip())) or text
        parsed: Any = None
        if self.kind is bool:
            parsed = BOOLEANS.get(text.lower())
        elif self.kind is int:
            parsed = int(spelled) if is_whole_number(spelled.removeprefix("-")) else None
        elif self.kind is float:
            try:
                parsed = float(spelled)
            except ValueError:
                parsed = None
        elif self.kind is Path:
            parsed = Path(os.path.expanduser(text)) if text else None
        else:
            parsed = spelled
        if parsed is None or not self._is_valid(parsed):
            raise self._error(text)
        return parsed

    def parse_list(self, text: str) -> tuple[Any, ...]:
        """Parse several values with commas between them."""
        if self.kind is Path:  # a name may have a comma in it
            return (self.parse_text(text),)
        return tuple(self.parse_text(item.strip()) for item in text.split(",") if item.strip())

    def parse_setting(self, value: Any) -> Any:
        """Parse a value of a settings file or an environment variable: typed, or as text.

        Where the option may be unset, 0 and an empty text unset it.
        """
        if self.default is None and str(value).strip() in ("", "0", "0.0"):
            return None
        if self.shape == "list":
            if isinstance(value, list):
                return tuple(self._parse_setting_item(item) for item in value)
            return self.parse_list(str(value))
        return self._parse_setting_item(value)

    def _parse_setting_item(self, value: Any) -> Any:
        if isinstance(value, dict | list) or (isinstance(value, bool) and self.kind is not bool):
            raise self._error(value)
        return self.parse_text(str(value))

    def check(self, value: Any) -> Any:
        """Check a value of a Python call or a JSON document, whose type counts.

        A path may be given as text and a text as a path, a list as anything that has items, a
        number as a whole one.
        """
        if value is None and self.default is None and not self.required:
            return None
        if self.shape == "list":
            items = [value] if isinstance(value, str | Path) else value
            if not isinstance(items, Sequence):
                raise self._error(value)
            return tuple(self._check_item(item) for item in items)
        if self.shape == "mapping":
            if not isinstance(value, Mapping):
                raise self._error(value)
            if not all(
                isinstance(one, str | int | float) and self._is_valid(one) for one in value.values()
            ):
                raise self._error(value)
            return dict(value)
        return self._check_item(value)

    def describe_accepted(self) -> str:
        """What it accepts, to follow "must be"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is bool:
            return "true or false"
        if self.kind is Path:
            return "a path"
        if self.kind is str:
            return "an object of texts and numbers" if self.shape == "mapping" else "text"
        number = "a whole number" if self.kind is int else "a number"
        if self.ge is not None and self.le is not None:
            bounds = f"between {_format_bound(self.ge)} and {_format_bound(self.le)}"
        else:
            limits = (
                ("at least", self.ge), ("greater than", self.gt),
                ("at most", self.le), ("less than", self.lt),
            )  # fmt: skip
            bounds = " and ".join(
                f"{words} {_format_bound(bound)}" for words, bound in limits if bound is not None
            )
        of = "of" if bounds.startswith("at ") else ""
        return " ".join(filter(None, [number, of, bounds, self.unit]))

    def _check_item(self, value: Any) -> Any:
        given = value
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError:
                raise self._error(given) from None
        elif self.kind is Path and isinstance(value, str):
            value = Path(os.path.expanduser(value)) if value else None
        elif self.kind is str and isinstance(value, Path):
            value = str(value)
        elif self.kind is str and isinstance(value, str) and self.normalize:
            value = self.normalize(value) or value
        elif isinstance(value, str) and self.normalize:
            return self.parse_text(value)
        right_type = isinstance(value, self.kind) and isinstance(value, bool) == (self.kind is bool)
        if not right_type or not self._is_valid(value):
            raise self._error(given)
        return value

    def _is_valid(self, value: Any) -> bool:
        if isinstance(value, str | Path):
            text = str(value)
            return "\0" not in text and (not self.choices or text in self.choices)
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    def _error(self, value: Any) -> InvalidOptionError:
        text = str(value)
        text = (self.normalize and self.normalize(text)) or text
        if text in self.refused:
            return InvalidOptionError(
                self.name, f"cannot be {text}: {self.refused[text]}",
                hint=f"Use {self.describe_accepted()}.",
            )  # fmt: skip
        return InvalidOptionError(
            self.name, f"must be {self.describe_accepted()}", value=value, hint=self.hint
        )

    @property
    def hint(self) -> Message:
        """What it is, for whoever gave a wrong value or none."""
        default = _format_default(self)
        return Message(
            "{option}: {help}{default}.",
            option=OptionRef(self.name),
            help=self.help or self.describe_accepted(),
            default=f"; the default is {default.strip('`')}"
            if default and not self.required
            else "",
        )


@dataclass(frozen=True, kw_only=True)
class Request:
    """Base of requests: every value is checked when one is built, whoever builds it."""

    def __post_init__(self) -> None:
        for name, one in list_options(type(self)).items():
            value = getattr(self, name)
            if value is one.default and not one.required:
                continue  # most are: a server builds a request for each of its clients
            value = one.check(value)
            object.__setattr__(self, name, value)
            if one.excludes and value is not None and getattr(self, one.excludes) is not None:
                raise InvalidOptionError(
                    name,
                    Message("and {option} were both given", option=OptionRef(one.excludes)),
                    hint="Give one of them.",
                )


def option(default: Any = MISSING, help: str = "", **rules: Any) -> Any:
    """Make a field of a request; the rules are attributes of `Option`."""
    metadata = {"help": help, **rules}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def list_options(request: type) -> Mapping[str, Option]:
    """The options of a request by name, in the order in which the class defines them."""
    if request not in _known:
        _known[request] = _list_options(request)
    return _known[request]


_known: dict[type, Mapping[str, Option]] = {}


def _list_options(request: type) -> Mapping[str, Option]:
    hints = get_type_hints(request)
    owners = {
        name: cls for cls in reversed(request.__mro__) if is_dataclass(cls)
        for name in cls.__dict__.get("__annotations__", {})
    }  # fmt: skip
    options = {}
    for item in fields(request):
        kind, shape, choices = _read_hint(hints[item.name])
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        owner = owners[item.name]
        section = owner.__dict__.get("settings_section")
        setting = "" if section is None else f"{section}.{item.name}".lstrip(".")
        options[item.name] = Option(
            item.name, kind, shape, required=default is MISSING,
            default=None if default is MISSING else default,
            group=(owner.__doc__ or "").partition("\n")[0].rstrip("."),
            **{"choices": choices, "setting": setting, **item.metadata},
        )  # fmt: skip
    return options


def request_to_json(request: Any) -> dict[str, Any]:
    """What of a request differs from its defaults, as plain JSON."""
    values = {}
    for name, one in list_options(type(request)).items():
        value = getattr(request, name)
        if one.required or value != one.default:
            values[name] = value_to_json(value)
    return values


def request_from_json(request: type[T], data: Mapping[str, Any]) -> T:
    """Build a request from JSON; unknown names are errors."""
    check_names(request, data)
    check_required(request, data)
    return request(**data)


def check_names(request: type, names: Iterable[str]) -> None:
    """Refuse names that are not options of a request, with the nearest that is."""
    options = list_options(request)
    for name in names:
        if name not in options:
            raise _unknown(name, options)


def check_required(request: type, given: Mapping[str, Any]) -> None:
    """Refuse values that lack an option without a default."""
    for name, one in list_options(request).items():
        if one.required and given.get(name) is None:
            raise InvalidOptionError(name, "is required", hint=one.hint)


def json_schema(request: type, *, http: bool = False) -> dict[str, Any]:
    """The JSON schema of a request.

    Args:
        request: the class.
        http: leave out what an HTTP client may not set; files are uploads.
    """
    properties, required = {}, []
    for name, one in list_options(request).items():
        if http and not one.http:
            continue
        properties[name] = _schema_of(one, upload=http and one.upload)
        if one.required:
            required.append(name)
    return {
        "type": "object", "additionalProperties": False, "properties": properties,
        **({"required": required} if required else {}),
    }  # fmt: skip


def docs_table(options: Iterable[Option]) -> str:
    """A Markdown table of options."""
    rows = [
        f"| `{one.name}` | {_format_default(one)} | {describe_option(one)} |" for one in options
    ]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows]) + "\n"


def settings_table(settings: Mapping[str, Option]) -> str:
    """A Markdown table of settings by key."""
    rows = [
        f"| `{key}` | {_format_default(one)} | {describe_option(one)} |"
        for key, one in settings.items()
    ]
    titles = ["| key | default | meaning |", "|---|---|---|"]
    return "\n".join([*titles, *rows]) + "\n"


def describe_option(one: Option) -> str:
    """What an option means and accepts, for the documentation."""
    accepted = one.unit if one.unit not in one.help else ""
    if one.choices and any(f" {choice}" not in f" {one.help}" for choice in one.choices):
        accepted = ", ".join(f"`{choice}`" for choice in one.choices)
    elif one.ge is not None and one.le is not None:
        accepted = f"{one.ge:g} to {one.le:g} {one.unit}".rstrip()
    return f"{one.help} ({accepted})".replace(" ()", "").replace("|", "\\|")


def _format_bound(bound: float) -> str:
    return f"{bound:g}" if abs(bound) < 1_000_000 else f"{bound:,.0f}"


def _format_default(one: Option) -> str:
    if one.required:
        return "required"
    value = value_to_json(one.default)
    if value in (None, "", [], {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _schema_of(one: Option, *, upload: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _JSON_TYPES[one.kind]}
    if one.normalize and one.kind is not str:
        schema = {"type": [_JSON_TYPES[one.kind], "string"]}
    if upload:
        schema = {"type": "string", "pattern": "^upload:[0-9a-f]{32}$"}
    if one.choices:
        schema["enum"] = list(one.choices)
    bounds = {
        "minimum": one.ge, "exclusiveMinimum": one.gt,
        "maximum": one.le, "exclusiveMaximum": one.lt,
    }  # fmt: skip
    schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    if one.shape == "list":
        schema = {"anyOf": [schema, {"type": "array", "items": schema}]}
    elif one.shape == "mapping":
        schema = {"type": "object"}
    if not one.required and one.default not in (None, "", (), {}):
        schema["default"] = value_to_json(one.default)
    return {**schema, "description": one.help}


def _read_hint(hint: Any) -> tuple[type, Shape, tuple[str, ...]]:
    """The type of a field's values, whether it holds several, and the words it may be."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [one for one in get_args(hint) if one is not type(None)]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return str, "single", arguments
    if origin is tuple:
        kind, _, choices = _read_hint(arguments[0])
        return kind, "list", choices
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return str, "mapping", ()
    return cast(type, hint), "single", ()


def value_to_json(value: Any) -> Any:
    """A value of an option as plain JSON."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [value_to_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _unknown(name: str, options: Mapping[str, Option]) -> UnknownOptionError:
    import difflib

    near = difflib.get_close_matches(name, options, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return UnknownOptionError(name, hint=f"{guess}Valid options: {', '.join(options)}.")
