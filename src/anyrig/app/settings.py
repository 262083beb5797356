"""What a user can set in `anyrig.toml`, `.env` or the environment.

Most settings are options of requests, defined there; those that belong to none are defined here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any, ClassVar

from anyrig.errors import InvalidSettingError
from anyrig.options import BOOLEANS, Request, option
from anyrig.settings.load import SettingsLoader, SettingsSchema
from anyrig.units import is_whole_number

log = logging.getLogger(__name__)
CONFIG_VARIABLE = "ANYRIG_CONFIG"
"""Names the settings file, as `--config` does."""
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


@dataclass(frozen=True, kw_only=True)
class ProgramSettings(Request):
    """The program."""

    settings_section: ClassVar = ""
    bench: bool = option(True, "whether to measure a device on first use")
    log_file: str = option("", "also write the log to this file", restricted=True)


@dataclass(frozen=True, kw_only=True)
class ListenOptions(Request):
    """The address."""

    settings_section: ClassVar = "server"
    host: str = option(
        "127.0.0.1", "address to listen on; any other than the loopback address requires API keys",
        metavar="ADDRESS",
    )  # fmt: skip
    port: int = option(3000, "port to listen on; 0 is any free one", ge=0, le=65535, metavar="N")


@dataclass(frozen=True, kw_only=True)
class ServerSettings(ListenOptions):
    """The server."""

    settings_section: ClassVar = "server"
    hosts: str = option(
        "", "further host names that requests may use, comma-separated. Callers need API keys",
        restricted=True,
    )  # fmt: skip
    behind_proxy: bool = option(
        False, "whether a proxy forwards requests; then callers need API keys on any address",
        restricted=True, restricted_unless=True,
    )  # fmt: skip
    trusted_proxies: str = option(
        "", "addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are"
        " believed, comma-separated: 127.0.0.1", restricted=True,
    )  # fmt: skip
    cors: str = option(
        "", "origins of web pages that may call the server, comma-separated: https://example.org",
        restricted=True,
    )  # fmt: skip
    models: str = option(
        "", "folders from which requests may load models, comma-separated", restricted=True
    )
    upload_mb: float = option(500.0, "maximum size of an uploaded file", gt=0, lt=1e12, unit="MB")
    upload_files: int = option(1000, "maximum number of uploaded files", gt=0, lt=1e12)
    upload_total_mb: float = option(
        50_000.0, "maximum size of all uploaded files", gt=0, lt=1e12, unit="MB"
    )
    upload_days: float = option(
        30.0, "delete files unused for this long that no job or index needs; 0 keeps them", ge=0,
        lt=1e6, unit="days",
    )  # fmt: skip
    body_mb: float = option(
        32.0, "maximum size of a request that is not an upload", gt=0, lt=1e12, unit="MB"
    )
    text_characters: int = option(
        200_000, "maximum length of the text of one request", gt=0, lt=1e12
    )
    texts: int = option(2048, "maximum number of texts to embed in one request", gt=0, lt=1e12)
    client_share: float = option(
        0.5, "share that one API key may use of all uploads, waiting jobs, waiting sentences or"
        " texts, and loaded models; 1 lets one key use all", gt=0, le=1,
    )  # fmt: skip
    queue: int = option(
        2000, "maximum number of waiting sentences or texts; further requests get status 429", gt=0,
        lt=1e12,
    )  # fmt: skip
    deadline_s: float = option(
        600.0, "maximum time a request waits for its turn", gt=0, lt=1e12, unit="seconds"
    )
    work_s: float = option(
        1800.0, "maximum time a request's work takes once started; jobs may take longer", gt=0,
        lt=1e12, unit="seconds",
    )  # fmt: skip
    idle_s: float = option(
        900.0, "unload models unused for this long; 0 keeps them", ge=0, lt=1e9, unit="seconds"
    )
    max_models: int = option(
        8, "maximum number of loaded models; the longest idle one is unloaded for another, and a"
        " request gets status 429 if all are in use", gt=0, lt=1e6,
    )  # fmt: skip
    memory_free_mb: float = option(
        0.0, "unload idle models to keep this free; 0 means 5 % of the memory, at most 1 GiB", ge=0,
        lt=1e9, unit="MiB",
    )  # fmt: skip
    jobs_at_once: int = option(
        1, "number of jobs that run in parallel; one book uses all devices", ge=1, le=64
    )
    keep_jobs_days: float = option(
        0.0, "delete finished jobs and their files after this long; 0 keeps them", ge=0, lt=1e6,
        unit="days",
    )  # fmt: skip
    max_jobs_gb: float = option(
        0.0, "delete the oldest finished jobs of a key when the files of all take more; 0 keeps"
        " them", ge=0, lt=1e9, unit="GB",
    )  # fmt: skip
    folders: str = option("", "folders that requests may index, comma-separated", restricted=True)
    shared: str = option(
        "", "indexes and classifiers that every key may use, comma-separated; `*` means all that"
        " were not made with a key", restricted=True,
    )  # fmt: skip
    requests_per_minute: int = option(
        600, "limit for one key; a key may have its own", gt=0, lt=1e12
    )
    log_texts: bool = option(False, "whether the log may contain texts of users")

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in filter(None, map(str.strip, self.trusted_proxies.split(","))):
            try:
                ip_network(word)
            except ValueError:
                raise InvalidSettingError(
                    f"server.trusted_proxies: {word!r} is not an address or network",
                    hint="Write addresses such as 127.0.0.1, or networks such as 10.0.0.0/8.",
                ) from None


@dataclass(frozen=True, kw_only=True)
class CacheSettings(Request):
    """The result cache."""

    settings_section: ClassVar = "cache"
    limit_gb: float = option(10.0, "maximum size of the result cache", ge=0.001, lt=1e9, unit="GiB")
    folder: str = option(
        "", "folder of the result cache; empty uses the user's cache folder", restricted=True
    )
    url: str = option(
        "", "redis://host:6379/0 shares results between machines; empty uses SQLite only",
        restricted=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.url and not self.url.lower().startswith(("redis://", "rediss://", "unix://")):
            raise InvalidSettingError(  # without the value, which may contain a password
                "cache.url is not the URL of a Redis server",
                hint="Write redis://host:6379/0, or with TLS rediss://:password@host:6379/0.",
            )


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(Request):
    """The cluster."""

    settings_section: ClassVar = "cluster"
    broker: str = option(
        "", "redis://HOST:6379/0, or a token; empty uses this machine's own broker",
        restricted=True,
    )  # fmt: skip
    # Meant for the broker beside it: texts must not go to another one.
    spread: bool = option(
        False, "whether books and speech use the cluster by default",
        restricted_with="cluster.broker",
    )  # fmt: skip
    name: str = option("", "name of a worker on this machine; empty uses the host name")
    nodes: int = option(1, "worker processes on each device", ge=1, le=64)
    patience: float = option(
        60.0, "how long work waits for a suitable worker if there is none", ge=0, le=7 * 24 * 3600,
        unit="seconds",
    )  # fmt: skip


SCHEMA = SettingsSchema(
    {
        "": ("anyrig.app.compute:DeviceOptions", ProgramSettings),
        "speech": ("anyrig.app.speech:SpeechRequest",),
        "book": ("anyrig.app.books:BookRequest",),
        "documents": ("anyrig.app.embedding:EmbedRequest", "anyrig.app.ask:AskRequest"),
        "server": (ServerSettings,),
        "cache": (CacheSettings,),
        "compute": ("anyrig.app.compute:TrainingComputeOptions",),
        "cluster": (ClusterSettings,),
    }
)
"""All settings by key: the options of these requests."""


@dataclass(frozen=True)
class Settings:
    """The value of every setting: `settings["speech.rate"]`, or `settings.speech.rate`."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """What is not the default, by key."""
    schema: SettingsSchema = field(default_factory=lambda: SCHEMA, compare=False, repr=False)

    def __getitem__(self, key: str) -> Any:
        return self.values[key] if key in self.values else self.schema[key].default

    def read_section(self, name: str) -> dict[str, Any]:
        """The values of a section by name."""
        return {key.rpartition(".")[2]: self[key] for key in self.schema.load_section(name)}

    def __getattr__(self, name: str) -> Any:
        """A setting without a section, such as `settings.bench`; or a section."""
        if not name.startswith("_"):  # else copying asks, before there is a schema
            if name in self.schema.load_section(""):
                return self[name]
            if values := self.read_section(name):
                return SimpleNamespace(**values)
        raise AttributeError(name)

    @property
    def device(self) -> str:
        return str(self["device"] or "auto")

    @cached_property
    def server(self) -> ServerSettings:
        return ServerSettings(**self.read_section("server"))

    @cached_property
    def cache(self) -> CacheSettings:
        return CacheSettings(**self.read_section("cache"))

    @cached_property
    def cluster(self) -> ClusterSettings:
        return ClusterSettings(**self.read_section("cluster"))


LOADER = SettingsLoader(
    SCHEMA,
    Settings,
    legacy_variables={
        "VIBEVOICE_MODEL": "speech.model", "VIBEVOICE_VOICE": "speech.voice",
        "VIBEVOICE_PORT": "server.port",
        **dict.fromkeys(("VIBEVOICE_DEVICE", "DIRECTML_DEVICE", "USE_GPU", "GPU_ID"), "device"),
    },
    read_legacy={"device": read_legacy_device},
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
