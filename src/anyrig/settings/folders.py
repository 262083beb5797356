"""The user's folders, by the habit of each system: XDG, AppData, Library.

Data and state lay in the cache folder before; they are moved when they are first asked for.
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
    """Where anyrig keeps what it knows of this user and machine."""

    config: Path
    """Settings and the saved choice: small, worth a backup."""
    cache: Path
    """Figures and whatever else can be made again: systems may delete it."""
    own_data: Path
    """Where the platform puts a user's data."""
    own_state: Path
    """Where it puts the state of programs."""

    @cached_property
    def data(self) -> Path:
        """Uploads, jobs, indexes: worth a backup. Moved there from the cache folder, once."""
        from anyrig.settings import moving  # with SQLite, which most commands do not need

        return moving.settle(self.cache, self.own_data, moving.DATA)

    @cached_property
    def state(self) -> Path:
        """The data of a broker: a queue. Moved there from the cache folder, once."""
        from anyrig.settings import moving

        return moving.settle(self.cache, self.own_state, moving.STATE)

    @property
    def choice(self) -> Path:
        """The device saved by `anyrig use`."""
        return self.config / "choice.json"

    @property
    def figures(self) -> Path:
        """What `anyrig bench` and `anyrig doctor` measured."""
        return self.cache / "figures.json"

    @property
    def limits(self) -> Path:
        """The largest batches that worked, by device, engine and version."""
        return self.cache / "limits.json"

    @property
    def selftests(self) -> Path:
        """Which attention backends and number formats passed, by device, driver and library."""
        return self.cache / "selftests.json"

    @property
    def rates(self) -> Path:
        """How fast voices speak and are made here, as books have measured."""
        return self.cache / "rates.json"

    @property
    def models(self) -> Path:
        """Weights that were fetched, a folder for each engine."""
        return self.cache / "models"

    @property
    def environments(self) -> Path:
        """Engines that live in environments of their own."""
        return self.cache / "environments"

    @property
    def results(self) -> Path:
        """The store of results, kept by content."""
        return self.cache / "results.sqlite"

    @property
    def indexes(self) -> Path:
        """Folders that were indexed, a file for each index."""
        return self.data / "indexes"

    @property
    def classifiers(self) -> Path:
        """Classifiers that were trained: small, and the examples may be gone."""
        return self.config / "classifiers"

    @property
    def runs(self) -> Path:
        """Where training runs lie, a small file for each; they themselves are elsewhere."""
        return self.data / "runs"

    @property
    def jobs(self) -> Path:
        """What is queued, runs and was done: beside what it has made so far."""
        return self.data / "jobs.sqlite"

    @property
    def keys(self) -> Path:
        """Who may call the server: keys, hashed."""
        return self.config / "keys.json"

    @property
    def coordinator(self) -> Path:
        """The secrets of a cluster that this machine leads: for its owner's eyes alone."""
        return self.config / "coordinator.json"

    @property
    def cluster(self) -> Path:
        """The data of the broker and the box of `anyrig coordinator`."""
        return self.state / "cluster"

    @property
    def server(self) -> Path:
        """The server's data: uploads, and what jobs that came over HTTP have made."""
        return self.data / "server"


def folders(environment: Mapping[str, str], platform: str = sys.platform) -> Folders:
    """The folders of this user."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or _home())
    if platform == "win32":
        roaming = Path(environment.get("APPDATA") or home / "AppData" / "Roaming") / "anyrig"
        local = Path(environment.get("LOCALAPPDATA") or _local(home)) / "anyrig"
        return Folders(roaming, local / "Cache", local, local)
    if platform == "darwin":
        support = home / "Library" / "Application Support" / "anyrig"
        cache = home / "Library" / "Caches" / "anyrig"
        data = environment.get("XDG_DATA_HOME")
        state = environment.get("XDG_STATE_HOME")
        return Folders(
            support,
            cache,
            Path(data) / "anyrig" if data else support,
            Path(state) / "anyrig" if state else support,
        )
    usual = {
        "CONFIG": ".config",
        "CACHE": ".cache",
        "DATA": ".local/share",
        "STATE": ".local/state",
    }
    return Folders(
        *(
            Path(environment.get(f"XDG_{name}_HOME") or home / place) / "anyrig"
            for name, place in usual.items()
        )
    )


def _local(home: Path) -> Path:
    """The folder for local data, by Windows itself where it can be asked."""
    if sys.platform != "win32":
        return home / "AppData" / "Local"
    from platformdirs import user_data_path

    return user_data_path()


def _home() -> Path:
    """The home folder by the system's list; a temporary one for a user who is in no list."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())
