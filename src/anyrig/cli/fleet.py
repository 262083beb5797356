"""`--cluster` for commands that are not yet requests of `app`: everything is done there."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from anyrig.app import cluster
from anyrig.app.cluster import ClusterOptions
from anyrig.app.engines import EngineChoice
from anyrig.app.rig import Rig
from anyrig.app.speech import SynthesisOptions
from anyrig.cli import compute
from anyrig.cli.context import Context

if TYPE_CHECKING:
    from anyrig.cli.speaker import Chosen
    from anyrig.placement import PlacementPlan
    from anyrig.speech.script import Segment
    from anyrig.speech.synthesise import Tally
    from anyrig.work.engine import EngineFactory
    from anyrig.work.pool import WorkerPool

_NAMED = 8


def arguments(parser: argparse.ArgumentParser) -> None:
    """The option of a command whose work can be spread over machines."""
    from anyrig.options import list_options

    option = list_options(ClusterOptions)["cluster"]
    parser.add_argument("--cluster", metavar="URL", default=None, help=option.help)


def _rig(context: Context) -> Rig:
    rig = Rig(config=getattr(context.options, "config", None), environment=context.environment)
    rig.machine = context.machine
    return rig


def _options(context: Context) -> ClusterOptions:
    return ClusterOptions(cluster=getattr(context.options, "cluster", None) or "")


def url_of(context: Context) -> str:
    """The broker to whose workers this command goes; empty for none."""
    if not hasattr(context.options, "cluster"):
        return ""
    options = _options(context)
    if not options.cluster and not context.loaded.settings.cluster.spread:
        return ""
    return cluster.find_broker(_rig(context), options)


def check_queued(context: Context) -> None:
    """A job's arguments are shown to many: a broker's password must not be among them."""
    if hasattr(context.options, "cluster"):
        cluster.check_queued(_rig(context), _options(context))


def _request(context: Context) -> SynthesisOptions:
    options = context.options
    return SynthesisOptions(
        cluster=getattr(options, "cluster", None) or "",
        precision=compute.wanted(context).precision,
        model=getattr(options, "model", None) or None,
        engine=getattr(options, "engine", None) or "",
    )


def _choice(chosen: Chosen) -> EngineChoice:
    return EngineChoice(chosen.name, chosen.kind, chosen.found, dict(chosen.options), True)


def placed(context: Context, chosen: Chosen) -> PlacementPlan:
    """Nothing is computed here: a placement that only says in what precision takes are made."""
    return cluster.place_on_cluster(_rig(context), _request(context), _choice(chosen))


def hired(
    context: Context, chosen: Chosen, placed: PlacementPlan, *, lane: str = "bulk"
) -> Callable[[EngineFactory], WorkerPool] | None:
    """Makes a pool of the cluster's workers, where one was named."""
    if not url_of(context):
        return None
    return cluster.open_cluster_pool(
        _rig(context), _request(context), _choice(chosen), placed, lane=lane
    )


def made_by(context: Context, tally: Tally) -> str:
    """Which workers made how many segments; empty without a cluster."""
    if not url_of(context) or not tally.devices:
        return ""
    counts = sorted(tally.devices.items(), key=lambda pair: (-pair[1], pair[0]))
    some = [f"{name} {count}" for name, count in counts[:_NAMED]]
    more = [f"{len(counts) - _NAMED} more"] if len(counts) > _NAMED else []
    return f"made by {', '.join((*some, *more))}"


def check_voices(context: Context, segments: Iterable[Segment]) -> None:
    """That no segment wants the voice of a recording that lies on this machine alone."""
    if url_of(context):
        cluster.check_no_recordings(_rig(context), _options(context), segments)
