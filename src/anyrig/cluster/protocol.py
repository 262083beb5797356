"""What the task `anyrig.run_items` takes and returns: JSON, every field checked on arrival.

Items and results are the codec's: speech has lines and takes. The bytes of results are not in the
JSON: they lie one after the other in a blob of their own (`blobs`), in the order of `results`.
Both dataclasses travel as `asdict` gives them, with messages as `errors.messages_to_json` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

from pydantic import (
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from anyrig.cluster.blobs import MAX_BLOB_BYTES
from anyrig.cluster.registry import PROTOCOL, EngineId
from anyrig.errors import InvalidInputError, message_from_json
from anyrig.work.outcome import ItemFailure

T = TypeVar("T")
MAX_ITEMS = 4096
OptionValue = bool | int | float | str
Index = Annotated[int, Field(strict=True)]
Size = Annotated[int, Field(strict=True, gt=0, le=MAX_BLOB_BYTES)]
Amount = Annotated[float, Field(strict=True, ge=0, lt=1e12)]
Text = Annotated[str, PlainValidator(message_from_json)]
_HINT = "Run the same version of anyrig on all machines."


class EncodedResult(NamedTuple):
    data: bytes
    facts: Mapping[str, Any]
    """What else belongs to it, as JSON."""


class Codec(Protocol):
    """How the items and results of one kind of work travel, and how results are checked.

    What comes from another machine may be anything: decoding, `check` and `examine` raise
    `ValueError`, `TypeError`, `KeyError` or `InvalidInputError` for what is not valid.
    """

    @property
    def kind(self) -> str: ...

    def cost(self, payload: Any) -> float: ...

    def encode_item(self, payload: Any) -> Any:
        """An item as JSON."""

    def decode_item(self, value: Any) -> Any: ...

    def encode_result(self, result: Any, *, compress: bool) -> EncodedResult: ...

    def decode_result(self, encoded: EncodedResult) -> Any: ...

    def check(self, payload: Any, result: Any, worker: str) -> Any:
        """The result of a worker, if it is valid."""

    def examine(self, payload: Any, result: Any, worker: str) -> Any:
        """The same with our own judgement of its quality."""

    def compare(self, payload: Any, mine: Any, theirs: Any) -> str:
        """How a result differs from this machine's own; empty if it does not."""


@dataclass(frozen=True)
class TaskRequest:
    """Items for one engine."""

    kind: str
    engine: EngineId
    """What the worker's engine must be equal to."""
    items: Annotated[tuple[tuple[Index, Any], ...], Field(max_length=MAX_ITEMS)]
    """Index and encoded item."""
    precision: str = "fp32"
    """Precision class that results are cached under."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    lane: str = "bulk"
    """`live` if somebody is listening."""
    compress: bool = True
    protocol: int = PROTOCOL

    def describe(self) -> str:
        """For Celery's logs and Flower: no text of a user."""
        return f"({self.kind} {self.engine.engine} {self.precision}, {len(self.items)} items)"


def _parse_failure(value: Any, parse: ValidatorFunctionWrapHandler) -> ItemFailure:
    if not isinstance(value, dict):
        raise ValueError("not a failure")
    message, hint = (message_from_json(value.get(name, "")) for name in ("message", "hint"))
    failure: ItemFailure = parse({**value, "message": message, "hint": hint})
    return replace(failure, message=message, hint=hint)


@dataclass(frozen=True)
class TaskResult:
    """What became of the items of a task."""

    results: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """The facts of each; its bytes are in the blob."""
    sizes: tuple[Size, ...] = ()
    """Of each result, in bytes."""
    failures: Mapping[int, Annotated[ItemFailure, WrapValidator(_parse_failure)]] = field(
        default_factory=dict
    )
    returned: tuple[Index, ...] = ()
    """Not computed: the task was revoked, the worker is draining, or the result grew too large."""
    refused: Text = ""
    """Why the worker did nothing at all."""
    cost: Amount = 0.0
    seconds: Amount = 0.0
    num_batches: int = 0
    num_out_of_memory: int = 0

    def split(self, blob: bytes) -> dict[int, EncodedResult]:
        """The results with their bytes."""
        found, start = {}, 0
        for (index, facts), size in zip(self.results.items(), self.sizes, strict=True):
            found[index] = EncodedResult(blob[start : start + size], facts)
            start += size
        if start != len(blob):
            raise InvalidInputError(f"{len(blob)} bytes instead of {start}", hint=_HINT)
        return found


def pack_results(
    result: TaskResult, encoded: Mapping[int, EncodedResult]
) -> tuple[TaskResult, bytes]:
    """A result with as many of these as fit into a blob, and the blob; others are returned."""
    fit: dict[int, EncodedResult] = {}
    size = 0
    for index, one in encoded.items():
        size += len(one.data)
        if size > MAX_BLOB_BYTES:
            break
        fit[index] = one
    left, failures = [index for index in encoded if index not in fit], dict(result.failures)
    if left and not fit:  # at least one item is settled
        failures[left.pop(0)] = ItemFailure(
            "error", "its result is too large to be sent", 1, "Split it into shorter ones."
        )
    packed = replace(
        result,
        results={index: dict(one.facts) for index, one in fit.items()},
        sizes=tuple(len(one.data) for one in fit.values()),
        failures=failures,
        returned=(*result.returned, *left),
    )
    return packed, b"".join(one.data for one in fit.values())


def parse_request(value: Any) -> TaskRequest:
    """Raises `InvalidInputError` for what is not one."""
    theirs = value.get("protocol") if isinstance(value, dict) else None
    if isinstance(theirs, int) and theirs != PROTOCOL:
        raise InvalidInputError(
            f"the task uses protocol {theirs}, this worker uses {PROTOCOL}", hint=_HINT
        )
    return _parse(_REQUEST, value, "task")


def parse_result(value: Any) -> TaskResult:
    """Raises `InvalidInputError` for what is not one."""
    found = _parse(_RESULT, value, "result")
    if len(found.sizes) != len(found.results) or sum(found.sizes) > MAX_BLOB_BYTES:
        raise InvalidInputError("invalid result: its sizes are wrong", hint=_HINT)
    return found


_REQUEST, _RESULT = TypeAdapter(TaskRequest), TypeAdapter(TaskResult)


def _parse(kind: TypeAdapter[T], value: Any, what: str) -> T:
    try:
        return kind.validate_python(value)
    except (ValidationError, OverflowError) as error:
        first = str(error)
        if isinstance(error, ValidationError):  # without the value, which may be a user's text
            detail = error.errors(include_input=False, include_url=False)[0]
            first = f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
        raise InvalidInputError(f"invalid {what}: {first}"[:200], hint=_HINT) from None


def to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a string")
    return value


def to_int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} instead of an integer")
    return value
