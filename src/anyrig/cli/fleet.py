"""`--cluster URL`: the workers of a cluster in the place of this machine's devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.show import print_warning
from anyrig.errors import BadInput

if TYPE_CHECKING:
    from anyrig.cli.speaker import Chosen
    from anyrig.placement import Placed
    from anyrig.work.crew import Crew
    from anyrig.work.engine import Recipe


def arguments(parser: argparse.ArgumentParser) -> None:
    """The option of a command whose work can be spread over machines."""
    parser.add_argument(
        "--cluster", metavar="URL", default=None,
        help="spread the work over the workers of a broker, such as redis://HOST:6379/0",
    )  # fmt: skip


def url_of(context: Context) -> str:
    """The broker that was named; empty for none."""
    return str(getattr(context.options, "cluster", None) or "")


def hired(
    context: Context, chosen: Chosen, placed: Placed, *, lane: str = "bulk"
) -> Callable[[Recipe], Crew] | None:
    """Makes a crew of the cluster's workers, where one was named."""
    url = url_of(context)
    if not url:
        return None
    from anyrig.cluster.card import offer_of
    from anyrig.cluster.fleet import Fleet
    from anyrig.cluster.link import Link, open_to_the_world
    from anyrig.speech.protocol import options_of
    from anyrig.speech.stage import precision_class

    if chosen.found.folder and any(voice.digest for voice in chosen.found.voices):
        raise BadInput(
            f"{chosen.name} speaks after recordings of this machine, which no worker has",
            hint="Leave --cluster out, or choose a voice that comes with its engine.",
        )
    link = Link(url)
    link.check()
    if open := open_to_the_world(link.url):
        print_warning(open)
    return lambda recipe: Fleet(
        link, offer_of(chosen.found), precision=precision_class(placed.placements),
        options=options_of(chosen.spec, chosen.options), lane=lane,
    )  # fmt: skip
