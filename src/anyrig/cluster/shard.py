"""Orders to workers and their answers, as plain JSON: nothing in them is ever run.

Takes are bytes, and lie beside their answer in the broker; through the box they travel within it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from anyrig.cluster.card import PROTOCOL, Offer
from anyrig.errors import InvalidInputError
from anyrig.speech.booth import Recording
from anyrig.speech.protocol import Line, Value
from anyrig.work.outcome import ItemFailure

MOST_BYTES = 16 << 20
"""Of an answer through the result backend; more goes over HTTP, or is made again in parts."""
MOST_LINES = 4096
_LONGEST = 100_000
_MOST = 1e12


@dataclass(frozen=True)
class Order:
    """A shard: lines for one engine, as one task."""

    id: str
    run: str
    """Whose it is: when that run is over, nobody wants it."""
    offer: Offer
    """What the engine must be, to the byte."""
    lines: tuple[tuple[int, Line], ...]
    precision: str = "fp32"
    """The class of number format that its takes are kept under."""
    options: Mapping[str, Value] = field(default_factory=dict)
    lane: str = "bulk"
    box: str = ""
    """Where an answer goes that is too large for the broker."""
    small: bool = True
    """Whether takes travel as FLAC."""

    @property
    def cost(self) -> float:
        """What it costs to do."""
        return sum(line.cost for _, line in self.lines)

    def plain(self) -> dict[str, Any]:
        """As it travels."""
        found = asdict(self)
        found["lines"] = [[index, asdict(line)] for index, line in self.lines]
        return {**found, "protocol": PROTOCOL}


@dataclass(frozen=True)
class Answer:
    """What became of a shard."""

    id: str
    recordings: Mapping[int, Recording] = field(default_factory=dict)
    failures: Mapping[int, ItemFailure] = field(default_factory=dict)
    left: tuple[int, ...] = ()
    """What it did not do, as it was told to stop, or the answer would have grown too large."""
    refused: str = ""
    """Why it did nothing at all."""
    cost: float = 0.0
    seconds: float = 0.0
    num_batches: int = 0
    num_out_of_memory: int = 0
    box: str = ""
    """Where the recordings are, when they are not here."""

    @property
    def is_lost(self) -> bool:
        """Whether nothing of it came here, and its worker is not to blame."""
        return not (self.recordings or self.failures or self.left or self.refused)

    @property
    def sound(self) -> bytes:
        """All takes, one after the other."""
        return b"".join(one.data for one in self.recordings.values())

    def plain(self, *, apart: bool = False) -> dict[str, Any]:
        """As it travels.

        Args:
            apart: the takes go another way, as they are: in JSON they would be a third longer, and
                cost more on their way than all else of it.
        """
        found = {name: getattr(self, name) for name in ("id", "refused", "cost", "seconds",
                 "num_batches", "num_out_of_memory", "box")}  # fmt: skip
        found["recordings"] = {
            str(index): {
                **({"size": len(one.data)} if apart else {"data": _letters(one.data)}),
                "problems": list(one.problems), "tries": one.tries, "hopeless": one.hopeless,
            }
            for index, one in self.recordings.items()
        }  # fmt: skip
        found["failures"] = {
            str(index): {
                "kind": one.kind,
                "said": one.message,
                "tries": one.tries,
                "hint": one.hint,
            }
            for index, one in self.failures.items()
        }
        found["left"] = list(self.left)
        return found


def order_of(found: Any) -> Order:
    """An order as it came.

    `InvalidInputError` for what is none. Nothing but known fields is looked at.
    """
    try:
        if found["protocol"] != PROTOCOL:
            raise InvalidInputError(
                f"the order is of protocol {found['protocol']}, this worker speaks {PROTOCOL}",
                hint="Run the same version of anyrig on all machines.",
            )
        lines = tuple((_whole(index), _line(line)) for index, line in found["lines"])
        if len(lines) > MOST_LINES:
            raise ValueError(f"{len(lines)} lines")
        options = {_text(name): _value(value) for name, value in found["options"].items()}
        return Order(
            _text(found["id"]), _text(found["run"]), _offer(found["offer"]), lines,
            _text(found["precision"]), options, _text(found["lane"]), _text(found["box"]),
            bool(found["small"]),
        )  # fmt: skip
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(
            f"an order that cannot be read: {type(error).__name__}: {error}"[:200],
            hint="Run the same version of anyrig on all machines.",
        ) from None


def answer_of(found: Any, sound: bytes = b"") -> Answer:
    """An answer as it came; `InvalidInputError` for what is none.

    Args:
        found: the answer.
        sound: its takes, where they came apart from it.
    """
    try:
        recordings, at = {}, 0
        for index, one in found["recordings"].items():
            size = _whole(one["size"]) if "size" in one else 0
            recordings[int(index)] = _recording(one, sound[at : at + size])
            at += size
        if at != len(sound):
            raise ValueError(f"{len(sound)} bytes of sound in the place of {at}")
        failures = {int(index): _failure(one) for index, one in found["failures"].items()}
        return Answer(
            _text(found["id"]), recordings, failures, tuple(_whole(one) for one in found["left"]),
            _text(found["refused"]), _amount(found["cost"]), _amount(found["seconds"]),
            _whole(found["num_batches"]), _whole(found["num_out_of_memory"]), _text(found["box"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InvalidInputError(
            f"an answer that cannot be read: {type(error).__name__}: {error}"[:200],
            hint="Run the same version of anyrig on all machines.",
        ) from None


def _line(found: Mapping[str, Any]) -> Line:
    text = _text(found["text"])
    if len(text) > _LONGEST:
        raise ValueError(f"a line of {len(text)} characters")
    return Line(
        text, _text(found["language"]), _text(found["voice"]), float(found["rate"]),
        _whole(found["seed"]),
    )  # fmt: skip


def _offer(found: Mapping[str, Any]) -> Offer:
    return Offer(*(_text(found[name]) for name in ("engine", "version", "fingerprint", "voices")))


def _letters(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _recording(found: Mapping[str, Any], sound: bytes) -> Recording:
    problems: Sequence[Any] = found["problems"]
    data = sound if "size" in found else base64.b64decode(_text(found["data"]), validate=True)
    if "size" in found and not 0 < found["size"] == len(data):
        raise ValueError("a take that is not there")
    return Recording(
        data, tuple(_text(one) for one in problems), _whole(found["tries"]), bool(found["hopeless"])
    )


def _failure(found: Mapping[str, Any]) -> ItemFailure:
    kind = found["kind"]
    if kind not in ("error", "memory", "killed"):
        raise ValueError(f"a failure of the kind {kind!r}")
    return ItemFailure(kind, _text(found["said"]), _whole(found["tries"]), _text(found["hint"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of text")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} instead of a whole number")
    return value


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < _MOST:
        raise ValueError(f"{str(value)[:20]} is no amount of work or time")
    return float(value)


def _value(value: Any) -> Value:
    if not isinstance(value, bool | int | float | str):
        raise TypeError(f"{type(value).__name__} instead of a plain value")
    return value
