"""How the server behaves, as a person sets it once: `[server]`."""

from __future__ import annotations

from dataclasses import dataclass

from anyrig.errors import InvalidSettingError
from anyrig.settings.restricted import restricted


@dataclass(frozen=True)
class ServerSettings:
    """What `anyrig serve` stands on."""

    host: str = "127.0.0.1"
    """The address it listens on; any other than this machine's own needs API keys."""
    port: int = 3000
    """The port it listens on."""
    hosts: str = restricted("")
    """Further names it may be called by, with commas; others are refused. Callers need API keys."""
    behind_proxy: bool = restricted(False)
    """Whether a proxy passes requests on to it: then callers need API keys, wherever it listens."""
    cors: str = restricted("")
    """Web pages, with commas, whose scripts may call it: https://example.org."""
    models: str = restricted("")
    """Folders, with commas, from which requests may name models."""
    upload_mb: float = 500.0
    """The largest file that may be uploaded."""
    upload_files: int = 1000
    """How many uploaded files are kept at once."""
    upload_total_mb: float = 50_000.0
    """How large all uploaded files together may be."""
    upload_days: float = 30.0
    """A file that nobody used for this long, and no job or index needs, is deleted; 0 keeps it."""
    body_mb: float = 32.0
    """The largest request that is no upload."""
    text_characters: int = 200_000
    """The longest text of one request."""
    texts: int = 2048
    """How many texts one request may bring to be embedded."""
    queue: int = 2000
    """Sentences or texts that may wait; over it requests are answered with 429."""
    deadline_s: float = 600.0
    """How long a request may wait for its turn."""
    work_s: float = 1800.0
    """How long a piece of a request's work may take once it has begun; a job takes longer."""
    idle_s: float = 900.0
    """A model that nobody asked for this long is unloaded; 0 keeps it."""
    memory_free_mb: float = 0.0
    """Memory to leave free: idle models are unloaded before; 0 is a twentieth, 1 GiB at most."""
    jobs_at_once: int = 1
    """How many jobs run side by side; a book uses all there is."""
    folders: str = restricted("")
    """Folders, with commas, that requests may have indexed."""
    shared: str = restricted("")
    """Indexes and classifiers of this machine, with commas, that every key may use; `*` is all
    that no key made."""
    requests_per_minute: int = 600
    """What one key may ask for; a key may have its own limit."""
    log_texts: bool = False
    """Whether the log may hold texts of the users."""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise InvalidSettingError(
                f"server.port is {self.port}", hint="A port goes from 0 to 65535."
            )
        for name in ("upload_mb", "upload_total_mb", "body_mb", "upload_files", "text_characters",
                     "texts", "queue", "deadline_s", "work_s", "requests_per_minute"):  # fmt: skip
            if not 0 < getattr(self, name) < 1e12:
                raise InvalidSettingError(
                    f"server.{name} is no limit", hint="Give a number above 0."
                )
        if not 0 <= self.upload_days < 1e6:
            raise InvalidSettingError("server.upload_days is no time", hint="Days; 0 keeps files.")
        if not 1 <= self.jobs_at_once <= 64:
            raise InvalidSettingError(
                "server.jobs_at_once is no number of jobs", hint="From 1 to 64."
            )
        if not 0 <= self.memory_free_mb < 1e9:
            raise InvalidSettingError(
                "server.memory_free_mb is no memory", hint="MiB; 0 leaves it to us."
            )
        if not 0 <= self.idle_s < 1e9:
            raise InvalidSettingError(
                "server.idle_s is no time", hint="Seconds; 0 keeps models loaded."
            )
