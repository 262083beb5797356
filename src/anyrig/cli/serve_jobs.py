"""How the server's jobs are done: by our own commands, with the settings that the server has.

A job's command runs in the job's folder. The settings file of the folder that the server was
started in counts there too, and so do the server's flags; a job's own words come over those.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import fleet
from anyrig.cli.context import Context

if TYPE_CHECKING:
    from anyrig.jobs import Job, JobHandler, ReportEvent, StopSignal
    from anyrig.storage.keys import JsonValue

_FLAGS = ("device", "strict", "precision", "profile", "memory_gb", "memory_fraction",
          "workers_per_device")  # fmt: skip
_EITHER = {"memory_gb": "memory_fraction", "memory_fraction": "memory_gb"}


def made(context: Context) -> JobHandler | None:
    """Does a job; none with `--no-jobs`."""
    if getattr(context.options, "no_jobs", False):
        return None
    from anyrig.services.jobs import KINDS, runner

    run = runner(environment(context))
    flags = {name: getattr(context.options, name, None) for name in _FLAGS}

    def with_flags(job: Job, tell: ReportEvent, stop: StopSignal) -> JsonValue:
        takes = KINDS[job.kind].flags if job.kind in KINDS else {}
        usual = {
            name: value for name, value in flags.items()
            if name in takes and value not in (None, "", False)
            and _EITHER.get(name) not in job.arguments
        }  # fmt: skip
        return run(replace(job, arguments={**usual, **job.arguments}), tell, stop)

    return with_flags


def environment(context: Context) -> dict[str, str]:
    """What a job's command sees."""
    found = dict(context.environment)
    if broker := fleet.url_of(context):  # not in its command line, which everybody can read
        found["ANYRIG_CLUSTER_BROKER"] = broker
    named = getattr(context.options, "config", None) or found.get("ANYRIG_CONFIG")
    project = Path(named or "anyrig.toml").expanduser()
    if project.is_file():
        found["ANYRIG_CONFIG"] = str(project.absolute())
    return found
