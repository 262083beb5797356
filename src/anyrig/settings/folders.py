"""The user's folders, by the habit of each system: XDG, AppData, Library."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Folders(NamedTuple):
    """Where anyrig keeps what it knows of this user and machine."""

    config: Path
    """Settings and the saved choice: small, worth a backup."""
    cache: Path
    """Figures and whatever else can be made again."""

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
        return self.cache / "indexes"

    @property
    def classifiers(self) -> Path:
        """Classifiers that were trained: small, and the examples may be gone."""
        return self.config / "classifiers"

    @property
    def runs(self) -> Path:
        """Where training runs lie, a small file for each; they themselves are elsewhere."""
        return self.cache / "runs"

    @property
    def jobs(self) -> Path:
        """What is queued, runs and was done: beside what it has made so far."""
        return self.cache / "jobs.sqlite"

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
        return self.cache / "cluster"

    @property
    def server(self) -> Path:
        """The server's data: uploads, and what jobs that came over HTTP have made."""
        return self.cache / "server"


def folders(environment: Mapping[str, str], platform: str = sys.platform) -> Folders:
    """The folders of this user."""
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or _home())
    if platform == "win32":
        roaming = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
        local = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return Folders(roaming / "anyrig", local / "anyrig" / "Cache")
    if platform == "darwin":
        library = home / "Library"
        return Folders(library / "Application Support" / "anyrig", library / "Caches" / "anyrig")
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    return Folders(config / "anyrig", cache / "anyrig")


def _home() -> Path:
    """The home folder by the system's list; a temporary one for a user who is in no list."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())
