"""`--events`: JSON lines for a program that follows along, in the place of one document at the end.

A command that is a job tells so how far it is; its last line is its result.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any

from anyrig.cli.context import Context
from anyrig.cli.show import print_json

_EVERY_S = 0.2


def argument(parser: argparse.ArgumentParser) -> None:
    """The flag."""
    parser.add_argument(
        "--events", action="store_true", help="with --json: a line for each thing as it happens"
    )


class Events:
    """What a command tells while it goes on; nothing, unless it was asked to.

    Args:
        context: of the command.
        total: how many things there are to be done.
        stage: what is being done with them.
    """

    def __init__(self, context: Context, total: int = 0, stage: str = "") -> None:
        self._on = bool(getattr(context.options, "events", False) and context.options.json)
        self._total, self._stage = total, stage
        self._began = time.monotonic()
        self._next = 0.0

    def progress(self, num_done: int, title: str, *, audio_s: float | None = None) -> None:
        """So many are done, and this one is next; told now and then."""
        now = time.monotonic()
        if not self._on or (now < self._next and num_done < self._total):
            return
        self._next = now + _EVERY_S
        spent_s = now - self._began
        left_s = spent_s / num_done * (self._total - num_done) if num_done else None
        told: dict[str, Any] = {
            "stage": self._stage, "done": round(num_done / max(1, self._total), 4),
            "num_done": num_done, "num_all": self._total, "title": title,
            "left_s": None if left_s is None else round(left_s, 1),
        }  # fmt: skip
        if audio_s is not None:
            told["speed"] = round(audio_s / spent_s, 2) if spent_s else None
        self._put("progress", told)

    def end(self, facts: Mapping[str, Any]) -> None:
        """What came of it."""
        if self._on:
            self._put("done", facts)
        else:
            print_json(dict(facts))

    @staticmethod
    def _put(event: str, facts: Mapping[str, Any]) -> None:
        print(json.dumps({"event": event, **facts}, allow_nan=False, default=str), flush=True)
