"""A small labelled set, written for these tests: `labelled.jsonl`.

Eight kinds of documents in English, Spanish and French; ten topics in English; and odd texts, which
are none of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

KINDS = {
    "invoice": "a bill that asks for money to be paid for goods or services",
    "letter": "a personal letter to a friend or relative",
    "contract": "an agreement with clauses that binds two parties",
    "recipe": "instructions for cooking a dish, with ingredients",
    "news": "a newspaper report of a recent event",
    "CV": "a person's work experience, education and skills",
    "manual": "instructions for operating or installing a device",
    "minutes": "the record of what was decided at a meeting",
}
"""Labels of the kinds, each with its description."""


class Row(NamedTuple):
    text: str
    label: str


def rows(name: str = "kinds", language: str = "") -> list[Row]:
    lines = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [
        Row(one["text"], one["label"])
        for one in found
        if one["set"] == name and language in ("", one["language"])
    ]
