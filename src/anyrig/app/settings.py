"""What a user can set in `anyrig.toml`, `.env` or the environment."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from anyrig.audiobooks.ways import Ways
from anyrig.devices.machine import Precision, parse_precision
from anyrig.errors import InvalidSettingError
from anyrig.precision.profiles import ProfileName
from anyrig.settings.load import SettingsLoader
from anyrig.settings.schema import BOOLEANS, setting
from anyrig.units import is_whole_number

log = logging.getLogger(__name__)
WARNED_VARIABLE = "ANYRIG_SETTINGS_WARNED"
"""Set for child processes: the warnings about settings have been printed."""


def read_legacy_device(variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Read the device from the variables of the programs that anyrig replaces.

    Other programs read them too: a value without a meaning here is left to those.
    """
    use_gpu = variables.get("USE_GPU", "").strip().lower()
    if BOOLEANS.get(use_gpu) is False:
        return "cpu", "USE_GPU"
    directml_index = variables.get("DIRECTML_DEVICE", "").strip()
    has_index = is_whole_number(directml_index)
    device = variables.get("VIBEVOICE_DEVICE", "").strip()
    # `directml` names a kind; DIRECTML_DEVICE says which device of it.
    if device and not (has_index and device.lower() in ("auto", "directml", "dml")):
        return device, "VIBEVOICE_DEVICE"
    if has_index:
        return f"dml:{directml_index}", "DIRECTML_DEVICE"
    gpu = variables.get("GPU_ID", "").strip()
    if is_whole_number(gpu):
        return gpu, "GPU_ID"
    for name, value in (("DIRECTML_DEVICE", directml_index), ("GPU_ID", gpu)):
        if value:
            log.info("ignored %s=%r, which may be meant for other programs", name, value)
    if BOOLEANS.get(use_gpu):
        return "gpu", "USE_GPU"
    return ("auto", "USE_GPU") if use_gpu == "auto" else None


@dataclass(frozen=True)
class SpeechSettings:
    model: str = setting("", legacy_variables=("VIBEVOICE_MODEL",))
    """Folder of a speech model; empty uses the engine's own."""
    engine: str = ""
    """Empty uses the first that supports the language."""
    voice: str = setting("", legacy_variables=("VIBEVOICE_VOICE",))
    """Empty uses the engine's first voice of the language."""
    language: str = "auto"
    """Language of the text: en, es, fr; auto detects it."""
    rate: float = setting(1.0, ge=0.25, le=4)
    """Speed: 2.0 is twice as fast."""
    lexicon: str = ""
    """File with the pronunciation of words."""
    loudness: float = setting(-19.0, ge=-70, le=0, unit="LUFS")
    """Of files; 0 leaves it as the engine gave it."""
    pause_clause: float = setting(0.12, ge=0, le=60, unit="seconds")
    """Inside a long sentence, where it was split."""
    pause_sentence: float = setting(0.3, ge=0, le=60, unit="seconds")
    pause_paragraph: float = setting(0.6, ge=0, le=60, unit="seconds")
    pause_heading: float = setting(0.9, ge=0, le=60, unit="seconds")
    """Before and after a heading."""
    pause_dialogue: float = setting(0.45, ge=0, le=60, unit="seconds")
    """Between speakers of a dialogue."""


@dataclass(frozen=True)
class BookSettings(Ways):
    """What of a book is read aloud, and how its chapters are written."""

    rest_before: float = setting(0.5, ge=0, le=60, unit="seconds")
    """Silence before a chapter."""
    rest_after: float = setting(1.5, ge=0, le=60, unit="seconds")
    bitrate: int = 0
    """Bits per second of the output; 0 uses the format's default."""


@dataclass(frozen=True)
class DocumentSettings:
    model: str = "auto"
    """Embedding model: a name of `anyrig embed --models`, a folder, a name on the hub."""
    ocr: str = setting("auto", choices=("auto", "never", "always"))
    """auto runs OCR on pages without usable text."""
    max_mb: float = setting(200.0, gt=0, lt=1e9, unit="MB")
    """Larger files are skipped and reported."""
    max_pages: int = setting(5_000, gt=0, lt=1e9)
    """Files with more pages are skipped and reported."""
    max_seconds: float = setting(600.0, gt=0, lt=1e9, unit="seconds")
    """Time limit for reading one file."""


@dataclass(frozen=True)
class ServerSettings:
    host: str = "127.0.0.1"
    """Address to listen on; any other than the loopback address requires API keys."""
    port: int = setting(3000, ge=0, le=65535, legacy_variables=("VIBEVOICE_PORT",))
    hosts: str = setting("", restricted=True)
    """Further host names that requests may use, comma-separated. Callers need API keys."""
    behind_proxy: bool = setting(False, restricted=True, restricted_unless=True)
    """Whether a proxy forwards requests; then callers need API keys on any address."""
    cors: str = setting("", restricted=True)
    """Origins of web pages that may call the server, comma-separated: https://example.org."""
    models: str = setting("", restricted=True)
    """Folders from which requests may load models, comma-separated."""
    upload_mb: float = setting(500.0, gt=0, lt=1e12, unit="MB")
    """Maximum size of an uploaded file."""
    upload_files: int = setting(1000, gt=0, lt=1e12)
    """Maximum number of uploaded files."""
    upload_total_mb: float = setting(50_000.0, gt=0, lt=1e12, unit="MB")
    """Maximum size of all uploaded files."""
    upload_days: float = setting(30.0, ge=0, lt=1e6, unit="days")
    """Delete files unused for this long that no job or index needs; 0 keeps them."""
    body_mb: float = setting(32.0, gt=0, lt=1e12, unit="MB")
    """Maximum size of a request that is not an upload."""
    text_characters: int = setting(200_000, gt=0, lt=1e12)
    """Maximum length of the text of one request."""
    texts: int = setting(2048, gt=0, lt=1e12)
    """Maximum number of texts to embed in one request."""
    queue: int = setting(2000, gt=0, lt=1e12)
    """Maximum number of waiting sentences or texts; further requests get status 429."""
    deadline_s: float = setting(600.0, gt=0, lt=1e12, unit="seconds")
    """Maximum time a request waits for its turn."""
    work_s: float = setting(1800.0, gt=0, lt=1e12, unit="seconds")
    """Maximum time a request's work takes once started; jobs may take longer."""
    idle_s: float = setting(900.0, ge=0, lt=1e9, unit="seconds")
    """Unload models unused for this long; 0 keeps them."""
    memory_free_mb: float = setting(0.0, ge=0, lt=1e9, unit="MiB")
    """Unload idle models to keep this free; 0 means 5 % of the memory, at most 1 GiB."""
    jobs_at_once: int = setting(1, ge=1, le=64)
    """Number of jobs that run in parallel; one book uses all devices."""
    folders: str = setting("", restricted=True)
    """Folders that requests may index, comma-separated."""
    shared: str = setting("", restricted=True)
    """Indexes and classifiers that every key may use, comma-separated; `*` means all that were
    not made with a key."""
    requests_per_minute: int = setting(600, gt=0, lt=1e12)
    """Limit for one key; a key may have its own."""
    log_texts: bool = False
    """Whether the log may contain texts of users."""


@dataclass(frozen=True)
class CacheSettings:
    limit_gb: float = setting(10.0, ge=0.001, lt=1e9, unit="GiB")
    """Maximum size of the result cache."""
    folder: str = setting("", restricted=True)
    """Folder of the result cache; empty uses the user's cache folder."""
    url: str = setting("", restricted=True)
    """redis://host:6379/0 shares results between machines; empty uses SQLite only."""

    def __post_init__(self) -> None:
        if self.url and not self.url.lower().startswith(("redis://", "rediss://", "unix://")):
            raise InvalidSettingError(  # without the value, which may contain a password
                "cache.url is not the URL of a Redis server",
                hint="Write redis://host:6379/0, or with TLS rediss://:password@host:6379/0.",
            )


@dataclass(frozen=True)
class ComputeSettings:
    precision: str = setting(
        "auto", choices=("auto", *get_args(Precision)), normalize=parse_precision
    )
    profile: ProfileName = "balanced"
    memory_gb: float = setting(0.0, ge=0, unit="GiB")
    """Maximum memory to use on a device; 0 leaves it to the profile."""
    memory_fraction: float = setting(0.0, ge=0, le=1)
    """The same as a fraction of the device's memory."""
    workers_per_device: int = setting(0, ge=0)
    """Processes on each device; 0 chooses by the work."""

    def __post_init__(self) -> None:
        if self.memory_gb and self.memory_fraction:
            raise InvalidSettingError(
                "compute.memory_gb and compute.memory_fraction are both set",
                hint="Set only one of them.",
            )


@dataclass(frozen=True)
class ClusterSettings:
    broker: str = setting("", restricted=True)
    """redis://HOST:6379/0, or a token; empty uses this machine's own broker."""
    # Meant for the broker beside it: texts must not go to another one.
    spread: bool = setting(False, restricted_with="cluster.broker")
    """Whether books and speech use the cluster without --cluster."""
    name: str = ""
    """Name of a worker on this machine; empty uses the host name."""
    nodes: int = setting(1, ge=1, le=64)
    """Worker processes on each device."""
    patience: float = setting(60.0, ge=0, le=7 * 24 * 3600, unit="seconds")
    """How long work waits for a suitable worker if there is none."""


@dataclass(frozen=True)
class Settings:
    """The schema; keys in sections are written `server.port`."""

    device: str = setting(
        "auto",
        legacy_variables=("VIBEVOICE_DEVICE", "DIRECTML_DEVICE", "USE_GPU", "GPU_ID"),
        read_legacy=read_legacy_device,
    )
    """auto, all, cpu, cuda:1, rocm:0, an index, an id or part of a name."""
    strict: bool = False
    """Whether a requested device that cannot be used is an error instead of a warning."""
    bench: bool = True
    """Whether to measure a device on first use."""
    log_file: str = setting("", restricted=True)
    """Also write the log to this file."""
    speech: SpeechSettings = field(default_factory=SpeechSettings)
    book: BookSettings = field(default_factory=BookSettings)
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    compute: ComputeSettings = field(default_factory=ComputeSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)


LOADER = SettingsLoader(
    Settings,
    legacy_prefixes=("VIBEVOICE_", "INDEXTTS_", "DIRECTML_"),
    # VIBEVOICE_URL is for clients of the old server.
    other_variables=re.compile(
        r"ANYRIG_(CONFIG|CONTAINER|BEATS|EXTRAS|PREFIX|CONSTRAINTS|TEST_.*)|VIBEVOICE_URL|"
        + WARNED_VARIABLE
    ),
    process_variables=(
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION", "ZE_AFFINITY_MASK",
        "ONEAPI_DEVICE_SELECTOR", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    ),
)  # fmt: skip
