"""What a self-test found, as values: tried what, and whether it was right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from anyrig.devices.machine import Precision

Verdict = Literal["right", "wrong", "not there"]
Area = Literal["attention", "product"]


@dataclass(frozen=True)
class Tried:
    """One thing that was tried."""

    area: Area
    backend: str
    """Of attention: cudnn, flash, efficient, math. Products have one."""
    precision: Precision
    case: str
    decides: bool = True
    """Whether a wrong answer has consequences, or is only told."""


@dataclass(frozen=True)
class Result:
    """What came of it."""

    tried: Tried
    verdict: Verdict
    """A backend that does not take a shape or format is not there, which is no fault."""
    error: float = 0.0
    """The worst error over the tolerance: above 1 is wrong."""
    num_bad: int = 0
    """Values that are not finite."""
    where: str = ""
    """The first tensor that is wrong: out, grad_q, grad_k, grad_v."""
    note: str = ""
    source: str = ""
    """Where the fault is reported, when it is a known one."""

    @property
    def counts(self) -> bool:
        """Whether something must be done about it."""
        return self.verdict == "wrong" and self.tried.decides

    @property
    def seen(self) -> str:
        """What is wrong, in words."""
        if self.note:
            return self.note
        if self.num_bad:
            return f"{self.num_bad:,} values of {self.where} are not finite"
        return f"{self.where} is off by {self.error:.3g} times what rounding explains"


def to_plain(result: Result) -> dict[str, Any]:
    """A result as JSON holds it."""
    data = asdict(result)
    data["error"] = min(data["error"], 1e30)  # JSON has no infinity
    return {**data.pop("tried"), **data}


def from_plain(data: Mapping[str, Any]) -> Result:
    """A result as `to_plain` wrote it."""
    rest = dict(data)
    tried = Tried(*(rest.pop(n) for n in ("area", "backend", "precision", "case", "decides")))
    return Result(tried, **rest)
