"""Which broker a command of the cluster means: the one named, the environment's, or our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.output import print_warning
from anyrig.install import format_install

if TYPE_CHECKING:
    from anyrig.cluster.link import Link


def broker_of(context: Context, named: str | None) -> str:
    """The address of the broker, or a token.

    Args:
        context: of the command.
        named: what was given with a flag.
    """
    if named:
        return named
    from anyrig.cluster import app, broker

    for name in (*app.BROKER_VARIABLES, "COORDINATOR_IP"):
        if context.environment.get(name):
            return app.named(context.environment)
    if context.loaded.settings.cluster.broker:
        return context.loaded.settings.cluster.broker
    path = context.folders.coordinator
    # A coordinator of this machine tells its own commands where it is.
    return (broker.kept(path).broker if path.exists() else "") or app.named(context.environment)


def linked(context: Context, named: str | None) -> Link:
    """A link to that broker, which answers; who else can reach it is told."""
    from anyrig.cluster.link import Link
    from anyrig.cluster.status import exposed

    needs_celery()
    link = Link(broker_of(context, named))
    link.check()
    for warning in exposed(link):
        print_warning(warning)
    return link


def needs_celery() -> None:
    """One clear error where the extra is not installed."""
    from importlib.util import find_spec

    from anyrig.errors import MissingPackageError

    if find_spec("celery") is None or find_spec("redis") is None:
        raise MissingPackageError(
            "a cluster needs celery and redis, which are not installed",
            hint=format_install("anyrig[cluster]"),
        )
