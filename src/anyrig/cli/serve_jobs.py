"""How the server's jobs run: with the settings and flags that the server has.

A job runs in its own folder. The settings file of the folder that the server was started in counts
there too, and so do the server's flags; a job's own options come first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import serve_cluster
from anyrig.cli.context import Context

if TYPE_CHECKING:
    from anyrig.jobs import JobHandler

_FLAGS = ("device", "strict", "precision", "profile", "memory_gb", "memory_fraction",
          "workers_per_device")  # fmt: skip


def made(context: Context) -> JobHandler | None:
    """Does a job; None with `--no-jobs`."""
    if getattr(context.options, "no_jobs", False):
        return None
    from anyrig.app.jobs import make_job_handler

    flags = {name: getattr(context.options, name, None) for name in _FLAGS}
    defaults = {name: value for name, value in flags.items() if value not in (None, "", False)}
    return make_job_handler(environment(context), defaults)


def environment(context: Context) -> dict[str, str]:
    """What a job's process sees."""
    found = {**context.environment, **serve_cluster.environment(context)}
    named = getattr(context.options, "config", None) or found.get("ANYRIG_CONFIG")
    project = Path(named or "anyrig.toml").expanduser()
    if project.is_file():
        found["ANYRIG_CONFIG"] = str(project.absolute())
    return found
