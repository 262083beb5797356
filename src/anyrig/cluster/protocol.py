"""What the task `anyrig.run_items` takes and returns: JSON, every field checked on arrival.

Items and results are the codec's: speech has lines and takes. The bytes of results are not in the
JSON: they lie one after the other in a blob of their own, in the order of `results`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from anyrig.cluster.blobs import MAX_BLOB_BYTES
from anyrig.cluster.registry import PROTOCOL, EngineId
from anyrig.errors import InvalidInputError
from anyrig.work.outcome import ItemFailure

OptionValue = bool | int | float | str
MAX_ITEMS = 4096
_MAX_AMOUNT = 1e12
_HINT = "Run the same version of anyrig on all machines."


class Codec(Protocol):
    """How the items and results of one kind of work travel.

    What comes from another machine may be anything: decoding raises `ValueError`, `TypeError`,
    `KeyError` or `InvalidInputError` for what is not valid.
    """

    kind: str

    def encode_item(self, payload: Any) -> Any:
        """An item as JSON."""

    def decode_item(self, value: Any) -> Any: ...

    def cost(self, payload: Any) -> float: ...

    def encode_result(self, result: Any, *, compress: bool) -> EncodedResult: ...

    def decode_result(self, encoded: EncodedResult) -> Any: ...


class EncodedResult(NamedTuple):
    data: bytes
    facts: Mapping[str, Any]
    """What else belongs to it, as JSON."""


@dataclass(frozen=True)
class TaskRequest:
    """Items for one engine."""

    kind: str
    engine: EngineId
    """What the worker's engine must be equal to."""
    items: tuple[tuple[int, Any], ...]
    """Index and encoded item."""
    precision: str = "fp32"
    """Class of number format that results are cached under."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    lane: str = "bulk"
    """`live` if somebody is listening."""
    compress: bool = True

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "items": [list(item) for item in self.items], "protocol": PROTOCOL}

    def describe(self) -> str:
        """For Celery's logs and Flower: no text of a user."""
        return f"({self.kind} {self.engine.engine} {self.precision}, {len(self.items)} items)"


def parse_request(value: Any) -> TaskRequest:
    """Raises `InvalidInputError` for what is not one."""
    try:
        if value["protocol"] != PROTOCOL:
            raise InvalidInputError(
                f"the task uses protocol {value['protocol']}, this worker uses {PROTOCOL}",
                hint=_HINT,
            )
        items = tuple((to_int(index), item) for index, item in value["items"])
        if len(items) > MAX_ITEMS:
            raise ValueError(f"{len(items)} items")
        engine = value["engine"]
        return TaskRequest(
            to_str(value["kind"]),
            EngineId(*(to_str(engine[n]) for n in ("engine", "version", "fingerprint", "voices"))),
            items,
            to_str(value["precision"]),
            {to_str(name): _to_option(one) for name, one in value["options"].items()},
            to_str(value["lane"]),
            value["compress"] is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _invalid("task", error) from None


@dataclass(frozen=True)
class TaskResult:
    """What became of the items of a task."""

    results: Mapping[int, EncodedResult] = field(default_factory=dict)
    failures: Mapping[int, ItemFailure] = field(default_factory=dict)
    returned: tuple[int, ...] = ()
    """Not computed: the task was revoked, the worker is draining, or the result grew too large."""
    refused: str = ""
    """Why the worker did nothing at all."""
    cost: float = 0.0
    seconds: float = 0.0
    num_batches: int = 0
    num_out_of_memory: int = 0

    @property
    def blob(self) -> bytes:
        return b"".join(one.data for one in self.results.values())

    def to_json(self) -> dict[str, Any]:
        """Without the bytes."""
        names = ("refused", "cost", "seconds", "num_batches", "num_out_of_memory")
        return {
            **{name: getattr(self, name) for name in names},
            "results": {
                str(index): {"size": len(one.data), "facts": dict(one.facts)}
                for index, one in self.results.items()
            },
            "failures": {str(index): asdict(one) for index, one in self.failures.items()},
            "returned": list(self.returned),
        }


def parse_result(value: Any, blob: bytes = b"") -> TaskResult:
    """Raises `InvalidInputError` for what is not one."""
    try:
        results, start = {}, 0
        for index, one in value["results"].items():
            size = to_int(one["size"])
            if size <= 0 or not isinstance(one["facts"], dict):
                raise ValueError("a result without data")
            results[int(index)] = EncodedResult(blob[start : start + size], one["facts"])
            start += size
        if start != len(blob):
            raise ValueError(f"{len(blob)} bytes instead of {start}")
        return TaskResult(
            results,
            {int(index): _to_failure(one) for index, one in value["failures"].items()},
            tuple(to_int(index) for index in value["returned"]),
            to_str(value["refused"]),
            _to_amount(value["cost"]),
            _to_amount(value["seconds"]),
            to_int(value["num_batches"]),
            to_int(value["num_out_of_memory"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _invalid("result", error) from None


def measure_blob(value: Any) -> int:
    """The size that a result says its bytes have."""
    try:
        size = sum(to_int(one["size"]) for one in value["results"].values())
        if not 0 <= size <= MAX_BLOB_BYTES:
            raise ValueError(f"{size} bytes")
        return size
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _invalid("result", error) from None


def _to_failure(value: Mapping[str, Any]) -> ItemFailure:
    if value["kind"] not in ("error", "memory", "killed"):
        raise ValueError(f"a failure of kind {value['kind']!r}")
    return ItemFailure(
        value["kind"], to_str(value["message"]), to_int(value["tries"]), to_str(value["hint"])
    )


def to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a string")
    return value


def to_int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} instead of an integer")
    return value


def _to_amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < _MAX_AMOUNT:
        raise ValueError(f"{str(value)[:20]} is not a cost or a time")
    return float(value)


def _to_option(value: Any) -> OptionValue:
    if not isinstance(value, bool | int | float | str):
        raise TypeError(f"{type(value).__name__} instead of a plain value")
    return value


def _invalid(what: str, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"invalid {what}: {type(error).__name__}: {error}"[:200], hint=_HINT)
