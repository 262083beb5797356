"""The folders and files that anyrig keeps for a user.

They follow the conventions of each platform: XDG, AppData, Library. platformdirs is asked only for
a missing LOCALAPPDATA: it reads the environment itself, and on macOS it also honours
XDG_CONFIG_HOME and XDG_CACHE_HOME, which would hide what version 0.1 saved there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from anyrig.storage import files


class Folders:
    """Where anyrig keeps what belongs to a user and machine."""

    def __init__(
        self, config: Path, cache: Path, data_target: Path, state_target: Path, home: Path
    ) -> None:
        self._data_target = data_target
        self._state_target = state_target
        files.set_private(config, cache, data_target, state_target)
        self.home = home
        # Settings and small files, worth a backup.
        self.config = config
        self.saved_device = config / "choice.json"
        self.classifiers = config / "classifiers"  # not in the cache: their examples may be gone
        self.api_keys = config / "keys.json"
        self.coordinator = config / "coordinator.json"  # secrets of a cluster
        # What can be made again. The system may delete it.
        self.cache = cache
        self.measurements = cache / "figures.json"  # of `anyrig bench` and `anyrig doctor`
        self.batch_limits = cache / "limits.json"
        self.selftests = cache / "selftests.json"
        self.rates = cache / "rates.json"  # speaking and synthesis rates of voices
        self.models = cache / "models"
        self.tessdata = self.models / "tessdata"  # Tesseract's languages that were downloaded
        self.derived = cache / "derived"  # graphs and tables that workers make from packages' files
        self.environments = cache / "environments"  # virtual environments of engines
        self.result_cache = cache / "results.sqlite"

    @cached_property
    def data(self) -> Path:
        """Worth a backup. First access moves what version 0.1 kept in the cache."""
        from anyrig.settings import migrate  # imports sqlite3, which most commands do not need

        return migrate.migrate(self.cache, self._data_target, migrate.DATA)

    @cached_property
    def state(self) -> Path:
        """First access moves what version 0.1 kept in the cache."""
        from anyrig.settings import migrate

        return migrate.migrate(self.cache, self._state_target, migrate.STATE)

    @property
    def indexes(self) -> Path:
        return self.data / "indexes"

    @property
    def runs(self) -> Path:
        """A small file for each training run, with the path of its folder."""
        return self.data / "runs"

    @property
    def jobs(self) -> Path:
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
        return Folders(roaming, local / "Cache", local, local, home)

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
            home,
        )
    return Folders(
        xdg("CONFIG", home / ".config"),
        xdg("CACHE", home / ".cache"),
        xdg("DATA", home / ".local" / "share"),
        xdg("STATE", home / ".local" / "state"),
        home,
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
