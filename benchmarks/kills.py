"""What tests with SIGKILL share: a report, and episodes of several kills each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class KillReport:
    num_kills: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    """Kills by what was going on then."""
    num_episodes: int = 0
    failures: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    """More that is measured."""


def run_episodes(
    report: KillReport,
    num_kills: int,
    rng: random.Random,
    episode: Callable[[str, int], None],
    kills_per_episode: tuple[int, int],
) -> KillReport:
    """Call `episode(name, kills)` until there were so many kills; it counts them in the report."""
    while report.num_kills < num_kills:
        here = min(rng.randint(*kills_per_episode), num_kills - report.num_kills)
        episode(f"episode-{report.num_episodes}", here)
        report.num_episodes += 1
        if report.num_episodes % 5 == 0:
            print(f"{report.num_kills} kills, {len(report.failures)} failures", flush=True)
    for line in report.failures:
        print(line, flush=True)
    return report
