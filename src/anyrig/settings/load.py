"""Settings from files and the environment into frozen values.

The weakest first: defaults, `anyrig.toml` in the user's folder, `./anyrig.toml` (or the file named
by `--config`), `./.env`, the environment. Flags come on top, in the command that has them.

An unknown key of a file is refused. An unknown variable is a warning: other programs share the
environment.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from anyrig.devices.describe import Precision
from anyrig.devices.formats import precision_named
from anyrig.errors import InvalidSettingError
from anyrig.precision.profiles import ProfileName
from anyrig.settings.books import BookSettings
from anyrig.settings.cluster import ClusterSettings
from anyrig.settings.documents import DocumentSettings
from anyrig.settings.restricted import MARK, restricted
from anyrig.settings.server import ServerSettings
from anyrig.units import is_whole_number

log = logging.getLogger(__name__)
Origin = Literal["default", "settings", "environment"]
PREFIX = "ANYRIG_"
WARNED = "ANYRIG_SETTINGS_WARNED"
"""Set for the processes that a command starts: what is wrong with settings was told once."""
# Read by the doors before settings are: they say where to look, not what to do.
_OTHER_VARIABLES = frozenset(
    {"ANYRIG_CONFIG", "ANYRIG_CONTAINER", "ANYRIG_BEATS", "ANYRIG_EXTRAS", "ANYRIG_PREFIX",
     "ANYRIG_CONSTRAINTS", WARNED}
)  # fmt: skip
_TESTS_PREFIX = "ANYRIG_TEST_"
_OLD_PREFIXES = ("VIBEVOICE_", "INDEXTTS_", "DIRECTML_")
_NOT_READ = frozenset({"VIBEVOICE_URL"})  # of a client of the old server
_SERVICE = re.compile(
    r".+_SERVICE_HOST|.+_SERVICE_PORT(_.+)?|.+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
"""What Kubernetes sets for a service that is called like us, beside NAME_PORT=tcp://..."""
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
DEVICE_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION", "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
)  # fmt: skip
"""Variables of drivers and frameworks that a `.env` file may set for a command."""
_BROKER, _SPREAD = "cluster.broker", "cluster.spread"
_BEHIND_PROXY = "server.behind_proxy"
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
            raise InvalidSettingError(
                f"speech.rate is {self.rate:g}", hint="It goes from 0.25 to 4."
            )
        if not -70 <= self.loudness <= 0:
            raise InvalidSettingError(
                f"speech.loudness is {self.loudness:g}",
                hint="LUFS lie below 0, such as -19; 0 leaves the loudness alone.",
            )
        for name, value in vars(self).items():
            if name.startswith("pause_") and not 0 <= value <= 60:
                raise InvalidSettingError(
                    f"speech.{name} is {value:g}", hint="Seconds from 0 to 60."
                )


@dataclass(frozen=True)
class ComputeSettings:
    """How models are run."""

    precision: str = "auto"
    """auto, fp32, tf32, fp16, bf16 or fp8."""
    profile: ProfileName = "balanced"
    """quality, balanced, fast or low-memory."""
    memory_gb: float = 0.0
    """The most memory of a device to take, in GiB; 0 leaves it to the profile."""
    memory_fraction: float = 0.0
    """The same as a share of the device's memory."""
    workers_per_device: int = 0
    """Processes on each device; 0 leaves it to the work."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", precision_named(self.precision) or self.precision)
        if self.precision not in ("auto", *get_args(Precision)):
            known = ", ".join(("auto", *get_args(Precision)))
            raise InvalidSettingError(
                f"compute.precision is {self.precision!r}", hint=f"One of: {known}."
            )
        if self.profile not in get_args(ProfileName):
            known = ", ".join(get_args(ProfileName))
            raise InvalidSettingError(
                f"compute.profile is {self.profile!r}", hint=f"One of: {known}."
            )
        if self.memory_gb and self.memory_fraction:
            raise InvalidSettingError(
                "compute.memory_gb and compute.memory_fraction are both set", hint="Set one."
            )
        if not 0 <= self.memory_gb < float("inf"):
            raise InvalidSettingError(
                f"compute.memory_gb is {self.memory_gb:g}, which is not an amount of memory",
                hint="Give a number of GiB, such as 8; 0 leaves it to the profile.",
            )
        if not 0 <= self.memory_fraction <= 1:
            raise InvalidSettingError(
                f"compute.memory_fraction is {self.memory_fraction:g}, which is not a share of the"
                " device's memory",
                hint="Give a number from 0 to 1, such as 0.8.",
            )
        if self.workers_per_device < 0:
            raise InvalidSettingError(
                f"compute.workers_per_device is {self.workers_per_device}",
                hint="At least 1; 0 leaves it to the work.",
            )


@dataclass(frozen=True)
class CacheSettings:
    """Where results are kept, and how much of them."""

    limit_gb: float = 10.0
    """What the store may take, in units of 1024^3 bytes."""
    folder: str = restricted("")
    """Where the store lies; empty takes the user's cache folder."""
    url: str = restricted("")
    """redis://host:6379/0 shares results between machines; empty keeps them in SQLite alone."""

    def __post_init__(self) -> None:
        if self.url and not self.url.lower().startswith(("redis://", "rediss://", "unix://")):
            raise InvalidSettingError(  # without the value: there may be a password in it
                "cache.url is no address of a Redis server",
                hint="Write redis://host:6379/0, with TLS rediss://:password@host:6379/0.",
            )
        if not 0.001 <= self.limit_gb < 1e9:
            raise InvalidSettingError(
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
    log_file: str = restricted("")
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
    warnings: tuple[str, ...] = ()
    """What was ignored, and what to do about it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of `DEVICE_VARIABLES`, those that the `.env` file sets and the environment does not."""


def load(
    environment: Mapping[str, str],
    *,
    user_file: Path | None = None,
    project_file: Path | None = None,
    project_named: bool = False,
    dotenv: Path | None = None,
) -> Loaded:
    """Settings from every place, the strongest last. Missing files are no error.

    Args:
        environment: of this process.
        user_file: in the user's own folder.
        project_file: in the working directory, or one that was named.
        project_named: whether a person named that file: then it may set everything.
        dotenv: in the working directory.
    """
    values: dict[str, Any] = {}
    origins: dict[str, tuple[Origin, str]] = {}
    ignored: list[str] = []
    unknown: list[str] = []
    misfit: list[str] = []
    if project_file is not None and user_file is not None and _same(project_file, user_file):
        project_file = None
    files = {path: _from_toml(path) for path in (user_file, project_file) if path is not None}
    from_file = _from_dotenv(dotenv) if dotenv is not None else {}
    guarded = restricted_keys()
    unnamed = {} if project_file is None or project_named else files[project_file]
    if _BROKER in unnamed or _BROKER in _from_variables(from_file):
        guarded |= {_SPREAD}  # it was meant for that broker, and no other may get the texts
    for path, found in files.items():
        for key, value in found.items():
            here = path is project_file and not project_named
            if here and key in guarded and not _tightens(key, value):
                ignored.append(f"{key} in {path}")
                continue
            values[key], origins[key] = value, ("settings", str(path))
    for variables, place in ((from_file, f"{dotenv}"), (environment, "")):
        unknown += _unknown(variables, place)
        for key, (value, name) in _from_variables(variables).items():
            origin = f"{name} in {place}" if place else name
            if place and key in guarded and not _tightens(key, value):
                ignored.append(origin)
                continue
            if name in ALIASES and not _fits(key, value):
                misfit.append(f"ignored {origin}: {value!r} is not a valid {key}")
                continue
            values[key], origins[key] = value, ("environment", origin)
    warnings = [*_ignored_warning(ignored, user_file), *_unknown_warning(unknown), *misfit]
    shown = {
        name: value for name, value in from_file.items()
        if name in DEVICE_VARIABLES and name not in environment
    }  # fmt: skip
    return Loaded(_build(values, origins), origins, tuple(warnings), shown)


def _tightens(key: str, value: Any) -> bool:
    """Whether a value makes a server ask for keys: that may be said anywhere."""
    return key == _BEHIND_PROXY and str(value).strip().lower() in _TRUE


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _ignored_warning(ignored: Sequence[str], user_file: Path | None) -> list[str]:
    if not ignored:
        return []
    own = f"{user_file}" if user_file is not None else "your own settings file"
    return [
        f"ignored {', '.join(ignored)}: a file of the working directory may not name brokers, "
        f"servers or folders. Name it with --config, or set it in {own} or the environment"
    ]


def _unknown_warning(unknown: Sequence[str]) -> list[str]:
    if not unknown:
        return []
    return [f"ignored unknown {'variable' if len(unknown) == 1 else 'variables'} "
            + "; ".join(unknown)]  # fmt: skip


def keys() -> dict[str, type]:
    """Every dotted key and its type."""
    found: dict[str, type] = {}
    for name, kind in get_type_hints(Settings).items():
        if is_dataclass(kind):
            found |= {f"{name}.{inner}": t for inner, t in get_type_hints(kind).items()}
        else:
            found[name] = kind
    return found


def restricted_keys() -> frozenset[str]:
    """The keys that a file of the working directory may not set."""
    found = [one.name for one in fields(Settings) if one.metadata.get(MARK)]
    for name, kind in get_type_hints(Settings).items():
        if is_dataclass(kind):
            found += [f"{name}.{one.name}" for one in fields(kind) if one.metadata.get(MARK)]
    return frozenset(found)


def variable(key: str) -> str:
    """The environment variable of a key: `server.port` is ANYRIG_SERVER_PORT."""
    return PREFIX + key.replace(".", "_").upper()


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettingError(
            f"cannot read {path}: {error}", hint="Name another with --config."
        ) from error
    import tomllib  # 5 ms that most commands need not pay

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettingError(
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
            raise InvalidSettingError(f"unknown key {key!r} in {path}", hint=_nearest(key, known))
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
            raise InvalidSettingError(
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


def _from_variables(variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Key to value and the variable's name."""
    found: dict[str, tuple[str, str]] = {}
    found |= _device_alias(variables)
    for name, key in ALIASES.items():
        value = variables.get(name, "")
        if key != "device" and value and not _of_a_service(name, value):
            found[key] = (value, name)
    for key in keys():
        name = variable(key)
        value = variables.get(name, "")
        if value and not _of_a_service(name, value):
            found[key] = (value, name)
    return found


def _unknown(variables: Mapping[str, str], place: str) -> list[str]:
    """Variables that are meant for us and that we do not know, with the nearest name.

    Names that are not ours belong to somebody else, in a .env file too; a near miss does not.
    """
    known = (*map(variable, keys()), *ALIASES)
    told = []
    for name, value in variables.items():
        if name in known or name in _OTHER_VARIABLES or name in _NOT_READ:
            continue
        if name.startswith(_TESTS_PREFIX) or _of_a_service(name, value):
            continue
        if not _looks_ours(name, place, known):
            continue
        where = f"{name} in {place}" if place else name
        near = _near(name, known)
        told.append(f"{where} (did you mean {near}?)" if near else where)
    return told


def _of_a_service(name: str, value: str) -> bool:
    """Whether Kubernetes has set a variable, for a service that is called like us."""
    if name.endswith("_PORT") and _SERVICE_ADDRESS.match(value):
        return True
    return bool(_SERVICE.fullmatch(name))


def _looks_ours(name: str, place: str, known: Sequence[str]) -> bool:
    if name.startswith((PREFIX, *_OLD_PREFIXES)):
        return True
    # In the process's environment anything may stand; a file is written for this. There
    # SERVER_PORT or GPU_IDS may be another program's; ANYRG_DEVICE or DIRECTML_DEVISE is ours.
    marked = [one for one in known if one.startswith((PREFIX, *_OLD_PREFIXES))]
    return bool(place) and _near(name, marked, cutoff=0.85) is not None


def _fits(key: str, value: str) -> bool:
    """Whether a value can be that of a key; for names that other programs may share."""
    try:
        _build({key: value}, {key: ("environment", "")})
    except InvalidSettingError:
        return False
    return True


def _device_alias(variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The device that the old names ask for; ANYRIG_DEVICE comes over it.

    Other programs read these names as well: a value that means nothing here is left to them.
    """
    use_gpu = variables.get("USE_GPU", "").strip().lower()
    if use_gpu in _FALSE:
        return {"device": ("cpu", "USE_GPU")}
    number = variables.get("DIRECTML_DEVICE", "").strip()
    number = number if is_whole_number(number) else ""
    for name, form in (("VIBEVOICE_DEVICE", "{}"), ("DIRECTML_DEVICE", "dml:{}"), ("GPU_ID", "{}")):
        value = variables.get(name, "").strip()
        # The first name gave a kind, `directml`, and the second which of them.
        open_question = value.lower() in ("auto", "directml", "dml") and number
        if not value or open_question:
            continue
        if name == "VIBEVOICE_DEVICE" or is_whole_number(value):
            return {"device": (form.format(value), name)}
        log.info("%s is %r and is left to other programs", name, value)
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
        raise InvalidSettingError(f"{key} = {value!r} ({place})", hint=f"{key} is true or false.")
    if kind is int:
        text = str(value).strip()
        if isinstance(value, bool) or not is_whole_number(text.removeprefix("-")):
            raise InvalidSettingError(
                f"{key} = {value!r} ({place})", hint=f"{key} is a whole number."
            )
        return int(text)
    if kind is float:
        try:
            return float(str(value))
        except ValueError:
            raise InvalidSettingError(
                f"{key} = {value!r} ({place})", hint=f"{key} is a number."
            ) from None
    if isinstance(value, (dict, list, bool)):
        raise InvalidSettingError(f"{key} = {value!r} ({place})", hint=f"{key} is text.")
    return str(value)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = _near(name, names)
    return f"Did you mean {near!r}?" if near else f"Known are: {', '.join(names)}."


def _near(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    import difflib

    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return found[0] if found else None
