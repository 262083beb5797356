"""Settings from files and the environment into frozen values; what is unknown is refused.

The weakest first: defaults, `anyrig.toml` in the user's folder, `./anyrig.toml` (or the file named
by `--config`), `./.env`, the environment. Flags come on top, in the command that has them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from anyrig.devices.describe import Precision
from anyrig.errors import BadSetting
from anyrig.precision.presets import Profile
from anyrig.settings.books import BookSettings
from anyrig.settings.cluster import ClusterSettings
from anyrig.settings.documents import DocumentSettings
from anyrig.settings.server import ServerSettings
from anyrig.units import is_number

log = logging.getLogger(__name__)
Origin = Literal["default", "settings", "environment"]
PREFIX = "ANYRIG_"
# Read by the doors before settings are: they say where to look, not what to do.
_OTHER_VARIABLES = frozenset(
    {"ANYRIG_CONFIG", "ANYRIG_CONTAINER", "ANYRIG_BEATS", "ANYRIG_TEST_PROCESSES"}
)
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
# Names of the systems that anyrig replaces, and what they are here.
ALIASES = {
    "VIBEVOICE_MODEL": "speech.model",
    "VIBEVOICE_VOICE": "speech.voice",
    "VIBEVOICE_PORT": "server.port",
    "VIBEVOICE_DEVICE": "device",
    "DIRECTML_DEVICE": "device",
    "USE_GPU": "device",
    "GPU_ID": "device",
}


@dataclass(frozen=True)
class SpeechSettings:
    """How text is spoken."""

    model: str = ""
    """The folder of a speech model; empty takes the engine's own."""
    engine: str = ""
    """Which engine speaks; empty takes the first that knows the language."""
    voice: str = ""
    """Which of its voices; empty takes its first of the language."""
    language: str = "auto"
    """The text's language as en, es, fr; auto finds it out."""
    rate: float = 1.0
    """How fast: 2.0 is twice as fast."""
    lexicon: str = ""
    """A file that says how words are pronounced."""
    loudness: float = -19.0
    """Of what is written to a file, in LUFS; 0 leaves it as the engine gave it."""
    pause_clause: float = 0.12
    """Seconds of silence inside a long sentence, where it was cut."""
    pause_sentence: float = 0.3
    """Between sentences."""
    pause_paragraph: float = 0.6
    """Between paragraphs."""
    pause_heading: float = 0.9
    """After a heading, and before one."""
    pause_dialogue: float = 0.45
    """Where another person begins to speak."""

    def __post_init__(self) -> None:
        if not 0.25 <= self.rate <= 4:
            raise BadSetting(f"speech.rate is {self.rate:g}", hint="It goes from 0.25 to 4.")
        if not -70 <= self.loudness <= 0:
            raise BadSetting(
                f"speech.loudness is {self.loudness:g}",
                hint="LUFS lie below 0, such as -19; 0 leaves the loudness alone.",
            )
        for name, value in vars(self).items():
            if name.startswith("pause_") and not 0 <= value <= 60:
                raise BadSetting(f"speech.{name} is {value:g}", hint="Seconds from 0 to 60.")


@dataclass(frozen=True)
class ComputeSettings:
    """How models are run."""

    precision: str = "auto"
    """auto, fp32, tf32, fp16, bf16 or fp8."""
    profile: Profile = "balanced"
    """quality, balanced, fast or low-memory."""
    memory_gb: float = 0.0
    """The most memory of a device to take, in GiB; 0 leaves it to the profile."""
    memory_fraction: float = 0.0
    """The same as a share of the device's memory."""
    workers_per_device: int = 0
    """Processes on each device; 0 leaves it to the work."""

    def __post_init__(self) -> None:
        if self.precision not in ("auto", *get_args(Precision)):
            known = ", ".join(("auto", *get_args(Precision)))
            raise BadSetting(f"compute.precision is {self.precision!r}", hint=f"One of: {known}.")
        if self.profile not in get_args(Profile):
            known = ", ".join(get_args(Profile))
            raise BadSetting(f"compute.profile is {self.profile!r}", hint=f"One of: {known}.")
        if self.memory_gb and self.memory_fraction:
            raise BadSetting(
                "compute.memory_gb and compute.memory_fraction are both set", hint="Set one."
            )
        if not 0 <= self.memory_gb < float("inf") or not 0 <= self.memory_fraction <= 1:
            raise BadSetting(
                "compute.memory_gb or compute.memory_fraction is no amount of memory",
                hint="Gibibytes from 0 up, or a share from 0 to 1.",
            )
        if self.workers_per_device < 0:
            raise BadSetting(
                f"compute.workers_per_device is {self.workers_per_device}",
                hint="At least 1; 0 leaves it to the work.",
            )


@dataclass(frozen=True)
class CacheSettings:
    """Where results are kept, and how much of them."""

    limit_gb: float = 10.0
    """What the store may take, in units of 1024^3 bytes."""
    folder: str = ""
    """Where the store lies; empty takes the user's cache folder."""
    url: str = ""
    """redis://host:6379/0 shares results between machines; empty keeps them in SQLite alone."""

    def __post_init__(self) -> None:
        if self.url and not self.url.lower().startswith(("redis://", "rediss://", "unix://")):
            raise BadSetting(  # without the value: there may be a password in it
                "cache.url is no address of a Redis server",
                hint="Write redis://host:6379/0, with TLS rediss://:password@host:6379/0.",
            )
        if not 0.001 <= self.limit_gb < 1e9:
            raise BadSetting(
                f"cache.limit_gb is {self.limit_gb:g}", hint="Give at least 0.001: a megabyte."
            )


@dataclass(frozen=True)
class Settings:
    """Everything a user can set in a file or the environment."""

    device: str = "auto"
    """Which device to use: auto, all, cpu, cuda:1, rocm:0, an index, an id or part of a name."""
    strict: bool = False
    """A device that was asked for and cannot be used is an error, not a warning."""
    bench: bool = True
    """Measure a device on its first use."""
    log_file: str = ""
    """Where the log goes beside the terminal."""
    speech: SpeechSettings = field(default_factory=SpeechSettings)
    book: BookSettings = field(default_factory=BookSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    compute: ComputeSettings = field(default_factory=ComputeSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)


@dataclass(frozen=True)
class Loaded:
    """Settings, and where each that is not a default came from."""

    settings: Settings
    origins: Mapping[str, tuple[Origin, str]] = field(default_factory=dict)
    """Dotted key to kind of place and its name."""


def load(
    environment: Mapping[str, str],
    *,
    user_file: Path | None = None,
    project_file: Path | None = None,
    dotenv: Path | None = None,
) -> Loaded:
    """Settings from every place, the strongest last. Missing files are no error."""
    values: dict[str, Any] = {}
    origins: dict[str, tuple[Origin, str]] = {}
    for path in (user_file, project_file):
        if path is not None:
            for key, value in _from_toml(path).items():
                values[key], origins[key] = value, ("settings", str(path))
    layers = [(_from_dotenv(dotenv), f"{dotenv}")] if dotenv is not None else []
    for variables, place in (*layers, (environment, "")):
        for key, (value, name) in _from_variables(variables, place).items():
            origin = f"{name} in {place}" if place else name
            values[key], origins[key] = value, ("environment", origin)
    return Loaded(_build(values, origins), origins)


def keys() -> dict[str, type]:
    """Every dotted key and its type."""
    found: dict[str, type] = {}
    for name, kind in get_type_hints(Settings).items():
        if is_dataclass(kind):
            found |= {f"{name}.{inner}": t for inner, t in get_type_hints(kind).items()}
        else:
            found[name] = kind
    return found


def variable(key: str) -> str:
    """The environment variable of a key: `server.port` is ANYRIG_SERVER_PORT."""
    return PREFIX + key.replace(".", "_").upper()


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"cannot read {path}: {error}", hint="Name another with --config."
        ) from error
    import tomllib  # 5 ms that most commands need not pay

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(
            f"{path} is not TOML: {error}", hint='Lines read `key = "value"`; text needs quotes.'
        ) from error
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": v for inner, v in value.items()}
        else:
            flat[key] = value
    known = keys()
    for key in flat:
        if key not in known:
            raise BadSetting(f"unknown key {key!r} in {path}", hint=_nearest(key, known))
    return flat


def _from_dotenv(path: Path) -> dict[str, str]:
    """The pairs of a .env file: NAME=value, quotes and `export` allowed, # begins a comment.

    The file is shared with other programs: one that cannot be read as text is not ours to judge.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("%s is not read: %s", path, error.strerror)
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().removeprefix("export ").strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if equals and name.strip().isidentifier():
            found[name.strip()] = _unquoted(value.strip())
        elif PREFIX in line.upper():  # other lines belong to other readers of the file
            raise BadSetting(
                f"{path}, line {number}: {line!r} is no NAME=value",
                hint="One pair a line; # begins a comment.",
            )
    return found


def _unquoted(value: str) -> str:
    """The value without its quotes and without a comment behind it."""
    if value[:1] in ("'", '"'):
        inner, closing, _ = value[1:].partition(value[0])
        if closing:
            return inner
    return value.partition(" #")[0].strip()


def _from_variables(variables: Mapping[str, str], place: str) -> dict[str, tuple[str, str]]:
    """Key to value and the variable's name. A name of ours that we do not know is refused.

    Names that are not ours belong to somebody else, in a .env file too; a near miss does not.
    """
    ours = {variable(key): key for key in keys()}
    found: dict[str, tuple[str, str]] = {}
    found |= _device_alias(variables)
    for name, key in ALIASES.items():
        if name in variables and key != "device" and variables[name]:
            found[key] = (variables[name], name)
    for name, value in variables.items():
        if name in ours:
            if value:
                found[ours[name]] = (value, name)
        elif name in _OTHER_VARIABLES or name in ALIASES:
            continue
        elif _looks_ours(name, place, (*ours, *ALIASES)):
            where = f" in {place}" if place else ""
            raise BadSetting(
                f"unknown variable {name}{where}", hint=_nearest(name, (*ours, *ALIASES))
            )
    return found


def _looks_ours(name: str, place: str, known: tuple[str, ...]) -> bool:
    if name.startswith(PREFIX):
        return True
    if not place:
        return False  # in the process's environment anything may stand; a file is written for this
    import difflib

    # SERVER_PORT or GPU_IDS may be another program's; ANYRG_DEVICE or VIBEVOICE_PRT is ours.
    marked = [other for other in known if other.startswith((PREFIX, "VIBEVOICE_", "DIRECTML_"))]
    return bool(difflib.get_close_matches(name, marked, n=1, cutoff=0.85))


def _device_alias(variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The device that the old names ask for; ANYRIG_DEVICE comes over it."""
    use_gpu = variables.get("USE_GPU", "").strip().lower()
    if use_gpu and use_gpu not in _TRUE | _FALSE | {"auto"}:
        raise BadSetting(
            f"USE_GPU is {use_gpu!r}, which means nothing", hint="Use true, false, yes, no or auto."
        )
    if use_gpu in _FALSE:
        return {"device": ("cpu", "USE_GPU")}
    number = variables.get("DIRECTML_DEVICE", "").strip()
    for name, form in (("VIBEVOICE_DEVICE", "{}"), ("DIRECTML_DEVICE", "dml:{}"), ("GPU_ID", "{}")):
        value = variables.get(name, "").strip()
        # The first name gave a kind, `directml`, and the second which of them.
        open_question = value.lower() in ("auto", "directml", "dml") and number
        if value and not open_question:
            if name != "VIBEVOICE_DEVICE" and not is_number(value):
                raise BadSetting(f"{name} is {value!r}", hint=f"{name} is a number, such as 0.")
            return {"device": (form.format(value), name)}
    if use_gpu in _TRUE:
        return {"device": ("gpu", "USE_GPU")}
    return {"device": ("auto", "USE_GPU")} if use_gpu == "auto" else {}


def _build(values: Mapping[str, Any], origins: Mapping[str, tuple[Origin, str]]) -> Settings:
    known = keys()
    settings = Settings()
    for key, value in values.items():
        typed = _typed(key, known[key], value, origins[key][1])
        group, _, inner = key.partition(".")
        if inner:
            settings = replace(
                settings, **{group: replace(getattr(settings, group), **{inner: typed})}
            )
        else:
            settings = replace(settings, **{key: typed})
    return settings


def _typed(key: str, kind: type, value: Any, place: str) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in _TRUE | _FALSE:
            return word in _TRUE
        raise BadSetting(f"{key} = {value!r} ({place})", hint=f"{key} is true or false.")
    if kind is int:
        text = str(value).strip()
        if isinstance(value, bool) or not is_number(text.removeprefix("-")):
            raise BadSetting(f"{key} = {value!r} ({place})", hint=f"{key} is a whole number.")
        return int(text)
    if kind is float:
        try:
            return float(str(value))
        except ValueError:
            raise BadSetting(f"{key} = {value!r} ({place})", hint=f"{key} is a number.") from None
    if isinstance(value, (dict, list, bool)):
        raise BadSetting(f"{key} = {value!r} ({place})", hint=f"{key} is text.")
    return str(value)


def _nearest(name: str, known: Any) -> str:
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known are: {', '.join(names)}."
