"""The folders and files that anyrig keeps for a user.

They follow the conventions of each platform: XDG, AppData, Library. platformdirs is asked only for
a missing LOCALAPPDATA: it reads the environment itself, and on macOS it also honours
XDG_CONFIG_HOME and XDG_CACHE_HOME, which would hide what version 0.1 saved there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Folders:
    """Where anyrig keeps what belongs to a user and machine."""

    config: Path
    """Settings and small files: worth a backup."""
    cache: Path
    """What can be made again. The system may delete it."""
    data_target: Path
    """Where `data` belongs on this platform."""
    state_target: Path

    @cached_property
    def data(self) -> Path:
        """Uploads, jobs, indexes: worth a backup. First access moves what 0.1 kept in the cache."""
        from anyrig.settings import migrate  # imports sqlite3, which most commands do not need

        return migrate.migrate(self.cache, self.data_target, migrate.DATA)

    @cached_property
    def state(self) -> Path:
        """Data of the cluster's broker. First access moves what 0.1 kept in the cache."""
        from anyrig.settings import migrate

        return migrate.migrate(self.cache, self.state_target, migrate.STATE)

    @property
    def saved_device(self) -> Path:
        """The device saved by `anyrig use`."""
        return self.config / "choice.json"

    @property
    def classifiers(self) -> Path:
        """Trained classifiers; not in the cache, as their examples may be gone."""
        return self.config / "classifiers"

    @property
    def api_keys(self) -> Path:
        """The server's API keys, hashed."""
        return self.config / "keys.json"

    @property
    def coordinator(self) -> Path:
        """Secrets of the cluster that this machine coordinates."""
        return self.config / "coordinator.json"

    @property
    def measurements(self) -> Path:
        """What `anyrig bench` and `anyrig doctor` measured."""
        return self.cache / "figures.json"

    @property
    def batch_limits(self) -> Path:
        """The largest batches that fitted, by device, engine and version."""
        return self.cache / "limits.json"

    @property
    def selftests(self) -> Path:
        """Attention backends and number formats that passed, by device, driver and library."""
        return self.cache / "selftests.json"

    @property
    def rates(self) -> Path:
        """Speaking and synthesis rates of voices, as measured while making books."""
        return self.cache / "rates.json"

    @property
    def models(self) -> Path:
        """Downloaded weights, a folder for each engine."""
        return self.cache / "models"

    @property
    def environments(self) -> Path:
        """Virtual environments of engines that need their own."""
        return self.cache / "environments"

    @property
    def result_cache(self) -> Path:
        """Results by content."""
        return self.cache / "results.sqlite"

    @property
    def indexes(self) -> Path:
        """Document indexes, a file for each."""
        return self.data / "indexes"

    @property
    def runs(self) -> Path:
        """A small file for each training run, with the path of its folder."""
        return self.data / "runs"

    @property
    def jobs(self) -> Path:
        """The job queue."""
        return self.data / "jobs.sqlite"

    @property
    def server(self) -> Path:
        """Uploads, and the results of jobs submitted over HTTP."""
        return self.data / "server"

    @property
    def cluster(self) -> Path:
        """Data of the broker and the blob store of `anyrig coordinator`."""
        return self.state / "cluster"


def find_folders(environment: Mapping[str, str], platform: str = sys.platform) -> Folders:
    """Find the folders of the user whose environment this is."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or _find_home())
    if platform == "win32":
        roaming = Path(environment.get("APPDATA") or home / "AppData" / "Roaming") / "anyrig"
        local = Path(environment.get("LOCALAPPDATA") or _find_local_data(home)) / "anyrig"
        return Folders(roaming, local / "Cache", local, local)

    def xdg(name: str, default: Path) -> Path:
        value = environment.get(f"XDG_{name}_HOME")
        return Path(value) / "anyrig" if value else default / "anyrig"

    if platform == "darwin":
        support = home / "Library" / "Application Support"
        return Folders(
            support / "anyrig",
            home / "Library" / "Caches" / "anyrig",
            xdg("DATA", support),
            xdg("STATE", support),
        )
    return Folders(
        xdg("CONFIG", home / ".config"),
        xdg("CACHE", home / ".cache"),
        xdg("DATA", home / ".local" / "share"),
        xdg("STATE", home / ".local" / "state"),
    )


def _find_local_data(home: Path) -> Path:
    if sys.platform != "win32":
        return home / "AppData" / "Local"
    from platformdirs import user_data_path

    return user_data_path()


def _find_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without an entry in the password database, as in containers
        return Path(tempfile.gettempdir())
