"""Settings from files and the environment.

From weakest to strongest: the defaults of the options, `anyrig.toml` in the user's configuration
folder, `./anyrig.toml` (or the file named by `--config`), `./.env`, the environment. Flags come on
top, in the command that has them.

An unknown key in a TOML file is an error. An unknown variable is a warning: other programs share
the environment.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from anyrig.errors import InvalidOptionError, InvalidSettingError, Message, OptionRef
from anyrig.options import Option, list_options

log = logging.getLogger(__name__)
T = TypeVar("T")
Origin = Literal["settings", "environment"]
PREFIX = "ANYRIG_"
# Kubernetes sets these for a service whose name matches one of our prefixes, and also
# NAME_PORT=tcp://...
_SERVICE_VARIABLE = re.compile(
    r".+_SERVICE_HOST|.+_SERVICE_PORT(_.+)?|.+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
_MISSPELT_CUTOFF = 0.85
ReadLegacy = Callable[[Mapping[str, str]], tuple[str, str] | None]


class SettingsSchema(Mapping[str, Option]):
    """Settings by key: the options of requests that have one, such as `speech.rate`.

    The part of a key before the dot is its section. The classes of a section are imported when a
    file, a variable or a caller names one of its settings: most commands need none of them.

    Args:
        sections: the classes whose options are settings of a section, or their places, such as
            `anyrig.app.speech:SpeechRequest`; keys without a section are in `""`.
    """

    def __init__(self, sections: Mapping[str, Sequence[type | str]]) -> None:
        self._sections = sections
        self._loaded: dict[str, Mapping[str, Option]] = {}

    def load_section(self, name: str) -> Mapping[str, Option]:
        """The settings of a section by key; the first class that has a key defines it."""
        if name not in self._loaded:
            options: dict[str, Option] = {}
            for place in self._sections.get(name, ()):
                request = _import_class(place) if isinstance(place, str) else place
                for option in list_options(request).values():
                    if option.setting and option.setting.rpartition(".")[0] == name:
                        options.setdefault(option.setting, option)
            self._loaded[name] = options
        return self._loaded[name]

    def __getitem__(self, key: str) -> Option:
        return self.load_section(key.rpartition(".")[0])[key]

    def __iter__(self) -> Iterator[str]:
        for name in self._sections:
            yield from self.load_section(name)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _import_class(place: str) -> type:
    module, _, name = place.partition(":")
    found: type = getattr(importlib.import_module(module), name)
    return found


@dataclass(frozen=True)
class LoadedSettings(Generic[T]):
    """Settings, and where each that is not a default came from."""

    settings: T
    origins: Mapping[str, tuple[Origin, str]] = field(default_factory=dict)
    """By key: the kind of source, and its name."""
    warnings: tuple[str, ...] = ()
    """What was ignored, and what to do about it."""
    process_variables: Mapping[str, str] = field(default_factory=dict)
    """Variables for the process that the `.env` file sets and the environment does not."""


class SettingValue(NamedTuple):
    """A value that a file or the environment gives to a key."""

    key: str
    value: Any
    origin: Origin
    source: str
    """The file, or the variable."""
    name: str
    """As a user would call it: `server.port in anyrig.toml`, `ANYRIG_SERVER_PORT`."""
    trusted: bool = True
    """Whether restricted settings may be set; not by a file merely found in the working directory.
    """
    is_legacy: bool = False
    """Whether the variable may be meant for another program."""


@dataclass(frozen=True)
class SettingsLoader(Generic[T]):
    """Loads the settings of one schema."""

    schema: Mapping[str, Option]
    """The settings by key."""
    build: Callable[[Mapping[str, Any]], T]
    """Makes the settings of the values that are not the default, by key."""
    legacy_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the programs that anyrig replaces, and the keys they set."""
    read_legacy: Mapping[str, ReadLegacy] = field(default_factory=dict)
    """By key: derives a value from several legacy variables, with the name of the variable."""
    legacy_prefixes: tuple[str, ...] = ()
    """Further prefixes of variables that are reported if they are unknown."""
    other_variables: re.Pattern[str] = re.compile(r"(?!)")
    """Variables with our prefixes that are not settings."""
    process_variables: tuple[str, ...] = ()
    """Variables of drivers and frameworks that a `.env` file may set for the process."""

    def load(
        self,
        environment: Mapping[str, str],
        *,
        user_file: Path | None = None,
        project_file: Path | None = None,
        project_named: bool = False,
        dotenv: Path | None = None,
    ) -> LoadedSettings[T]:
        """Load the settings from all sources. Missing files are skipped.

        Args:
            environment: the variables of this process.
            user_file: `anyrig.toml` in the user's configuration folder.
            project_file: `anyrig.toml` in the working directory, or the file the user named.
            project_named: whether the user named it; then it may set everything.
            dotenv: `.env` in the working directory.
        """
        given: list[SettingValue] = []
        if user_file is not None:
            given += self._read_toml(user_file, trusted=True)
        if project_file is not None and not _is_same_file(project_file, user_file):
            given += self._read_toml(project_file, trusted=project_named)
        from_dotenv = _read_dotenv(dotenv) if dotenv is not None else {}
        given += self._read_variables(from_dotenv, f" in {dotenv}", trusted=False)
        given += self._read_variables(environment, "", trusted=True)

        chosen: dict[str, SettingValue] = {}
        restricted, invalid = [], []
        untrusted_keys = {item.key for item in given if not item.trusted}
        for item in given:
            option = self.schema[item.key]
            if not item.trusted and _is_restricted(option, item.value, untrusted_keys):
                restricted.append(item.name)
            elif item.is_legacy and not _accepts(option, item.value):
                invalid.append(f"ignored {item.name}: {item.value!r} is not a valid {item.key}")
            else:
                chosen[item.key] = item
        unknown = [
            *self._find_unknown(from_dotenv, f" in {dotenv}"), *self._find_unknown(environment, "")
        ]  # fmt: skip
        warnings: list[str] = []
        if restricted:
            warnings.append(Message(
                "ignored {keys}: a file in the working directory may not name brokers, servers or"
                " folders. Pass the file with {config}, or set this in {file} or the environment",
                keys=", ".join(restricted), config=OptionRef("config"),
                file=user_file or "your own settings file",
            ))  # fmt: skip
        if unknown:
            noun = "variable" if len(unknown) == 1 else "variables"
            warnings.append(f"ignored unknown {noun} {'; '.join(unknown)}")
        values = {key: _parse(self.schema[key], item) for key, item in chosen.items()}
        self._check_excluded(values)
        return LoadedSettings(
            self.build(values),
            {key: (item.origin, item.source) for key, item in chosen.items()},
            (*warnings, *invalid),
            {
                name: value for name, value in from_dotenv.items()
                if name in self.process_variables and name not in environment
            },
        )  # fmt: skip

    def _read_toml(self, path: Path, *, trusted: bool) -> Iterator[SettingValue]:
        values: dict[str, Any] = {}
        for key, value in _parse_toml(path).items():
            if isinstance(value, dict):
                values |= {f"{key}.{name}": inner for name, inner in value.items()}
            else:
                values[key] = value
        for key, value in values.items():
            section = f"{key}."
            if key not in self.schema and any(name.startswith(section) for name in self.schema):
                raise InvalidSettingError(
                    f"{key} in {path} must be a table, not {value!r:.80}",
                    hint=f"Write [{key}], and its settings in the lines below.",
                )
            if key not in self.schema:
                near = _find_similar(key, self.schema)
                hint = f"Did you mean {near!r}?" if near else None
                raise InvalidSettingError(
                    f"unknown key {key!r} in {path}",
                    hint=hint or f"Valid keys: {', '.join(sorted(self.schema))}.",
                )
            yield SettingValue(key, value, "settings", str(path), f"{key} in {path}", trusted)

    def _read_variables(
        self, variables: Mapping[str, str], place: str, *, trusted: bool
    ) -> Iterator[SettingValue]:
        """What variables set; our own names win over legacy ones."""
        for key in dict.fromkeys(filter(None, map(self._find_key, variables))):
            own = variable_name(key)
            if key in self.read_legacy:
                found = [self.read_legacy[key](variables)]
            else:
                legacy = [name for name, set_key in self.legacy_variables.items() if set_key == key]
                found = [(variables.get(name, ""), name) for name in legacy]
            found.append((variables.get(own, ""), own))
            usable = [pair for pair in found if pair and pair[0] and not _is_of_service(*pair)]
            if usable:
                value, name = usable[-1]
                source = f"{name}{place}"
                yield SettingValue(key, value, "environment", source, source, trusted, name != own)

    def _find_key(self, variable: str) -> str:
        """The key that a variable sets, or an empty text."""
        if not variable.startswith(PREFIX):
            return self.legacy_variables.get(variable, "")
        name = variable.removeprefix(PREFIX).lower()
        in_section = name.replace("_", ".", 1)
        return in_section if in_section in self.schema else name if name in self.schema else ""

    def _find_unknown(self, variables: Mapping[str, str], place: str) -> Iterator[str]:
        """Find variables that are meant for us but unknown, with the most similar known name.

        Args:
            variables: by name.
            place: the file they come from. There a misspelt prefix counts too: the environment may
                hold anything, but a file with ANYRG_DEVICE was written for us.
        """
        prefixes = (PREFIX, *self.legacy_prefixes)
        for name, value in variables.items():
            if (
                self.other_variables.fullmatch(name)
                or _is_of_service(value, name)
                or self._find_key(name)
            ):
                continue
            # Only what resembles our prefixes is compared with all settings, which takes a while.
            first = f"{name.partition('_')[0]}_"
            if not name.startswith(prefixes) and not (place and _find_similar(first, prefixes)):
                continue
            known = [*map(variable_name, self.schema), *self.legacy_variables]
            prefixed = [one for one in known if one.startswith(prefixes)]
            if name.startswith(prefixes) or _find_similar(name, prefixed, _MISSPELT_CUTOFF):
                near = _find_similar(name, known)
                yield f"{name}{place}" + (f" (did you mean {near}?)" if near else "")

    def _check_excluded(self, values: Mapping[str, Any]) -> None:
        set_keys = {key for key, value in values.items() if value is not None}
        for key in set_keys:
            excluded = self.schema[key].excludes
            other = f"{key.rpartition('.')[0]}.{excluded}".lstrip(".")
            if excluded and other in set_keys:
                raise InvalidSettingError(
                    f"{' and '.join(sorted((key, other)))} are both set",
                    hint="Set only one of them.",
                )


def variable_name(key: str) -> str:
    """The environment variable of a key: `server.port` is ANYRIG_SERVER_PORT."""
    return PREFIX + key.replace(".", "_").upper()


def _parse(option: Option, item: SettingValue) -> Any:
    try:
        return option.parse_setting(item.value)
    except InvalidOptionError as error:
        raise InvalidSettingError(
            f"{item.key} must be {option.describe_accepted()}, not {item.value!r:.80}"
            f" ({item.source})",
            hint=f"Correct it, or remove it for the default ({option.default!r}).",
        ) from error


def _accepts(option: Option, value: Any) -> bool:
    try:
        option.parse_setting(value)
    except InvalidOptionError:
        return False
    return True


def _is_restricted(option: Option, value: Any, untrusted_keys: set[str]) -> bool:
    """Whether a file in the working directory may not set a value.

    Args:
        option: what it sets.
        value: as the file has it.
        untrusted_keys: all keys that files in the working directory set.
    """
    if option.restricted_with in untrusted_keys:
        return True
    allowed = option.restricted_unless
    return option.restricted and (
        allowed is None or not _accepts(option, value) or option.parse_setting(value) != allowed
    )


def _is_same_file(path: Path, other: Path | None) -> bool:
    try:
        return other is not None and path.samefile(other)
    except OSError:
        return False


def _is_of_service(value: str, name: str) -> bool:
    """Whether Kubernetes sets a variable for a service."""
    is_address = name.endswith("_PORT") and _SERVICE_ADDRESS.match(value)
    return bool(is_address or _SERVICE_VARIABLE.fullmatch(name))


def _find_similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    import difflib

    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def _parse_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettingError(
            f"cannot read {path}: {error}",
            hint=Message("Name another file with {config}.", config=OptionRef("config")),
        ) from error
    import tomllib  # takes 5 ms; most commands have no file

    from anyrig.settings.toml import parse_toml

    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettingError(
            f"{path} is not valid TOML: {error}",
            hint='Write `key = "value"`; text needs quotes.',
        ) from error


def _read_dotenv(path: Path) -> dict[str, str]:
    """Read NAME=value lines; quotes, `export` and comments after # are allowed.

    Other programs use the file too: one that is not text, and lines that are not for us, are no
    error.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("cannot read %s: %s", path, error.strerror)
        return {}
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().removeprefix("export ").strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if equals and name.strip().isidentifier():
            values[name.strip()] = _unquote(value.strip())
        elif PREFIX in line.upper():
            raise InvalidSettingError(
                f"{path}, line {number}: expected NAME=value, not {line!r}",
                hint="Write one NAME=value per line; # starts a comment.",
            )
    return values


def _unquote(value: str) -> str:
    """Remove the quotes, or the comment after a value without quotes."""
    if value[:1] in ("'", '"'):
        inner, closing, _ = value[1:].partition(value[0])
        if closing:
            return inner
    return value.partition(" #")[0].strip()
