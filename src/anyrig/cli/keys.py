"""`anyrig keys`: who may call the server."""

from __future__ import annotations

import argparse

HELP = """Who may call the server."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""


def run(options: argparse.Namespace) -> int:
    """Not there yet."""
    return 0
