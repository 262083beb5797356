"""Questions with known answers, among passages that look alike: invoices, codes, names."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Question(NamedTuple):
    ask: str
    answer: str
    kind: str


def load() -> tuple[dict[str, str], list[Question]]:
    data = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))
    questions = [Question(one["ask"], one["answer"], one["kind"]) for one in data["questions"]]
    return {**_alike(), **data["passages"]}, questions


def _alike() -> dict[str, str]:
    """What makes it hard: much of the same kind."""
    dice = random.Random(11)
    names = (
        "Abara Becker Castro Dubois Eriksen Fontaine Gupta Haddad Ito Jansen Kovac Lindt".split()
    )
    things = "desks lamps keyboards monitors cables shelves scanners phones cameras fans".split()
    parts = "hose pump valve door sensor motor heater filter lock lamp".split()
    found = {}
    for n in range(60):
        found[f"invoice-{n}"] = (
            f"Invoice 2026-0{300 + n}: {dice.randint(2, 20)} office {dice.choice(things)}, total "
            f"{dice.randint(100, 3000)}.00 including VAT, payable within {dice.choice((14, 30))}"
            " days."
        )
        found[f"policy-{n}"] = (
            f"Theft and damage are covered under the policy KX-{4400 + n}-{dice.choice('ACDE')}, "
            f"which must be quoted in every claim by {dice.choice(names)}."
        )
        found[f"error-{n}"] = (
            f"Error E-{25 + n} means that the {dice.choice(parts)} of the machine has to be looked "
            "at. Switch it off and start the programme again."
        )
        found[f"minutes-{n}"] = (
            f"It was decided that {dice.choice(names)} writes to the members about item {n} until "
            f"{dice.choice(('Monday', 'Tuesday', 'Friday'))}."
        )
    return found


def reciprocal(orders: Callable[[str], Sequence[str]], questions: Sequence[Question]) -> float:
    places = [
        list(order).index(one.answer) + 1 if one.answer in order else 0
        for one in questions
        for order in [orders(one.ask)]
    ]
    return sum(1 / place for place in places if place) / len(places)
