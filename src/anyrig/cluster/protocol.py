"""What the task `anyrig.run_items` takes and returns: JSON, every field checked on arrival.

Whoever has the token can send anything: `parse_headers`, `parse_arguments`, `parse_request` and
`parse_result` raise `InvalidInputError` for what is not valid in type, range, size or nesting.

Items and results are the codec's: speech has lines and takes. The bytes of results are not in the
JSON: they lie one after the other in a blob of their own (`blobs`), in the order of `results`.
Both dataclasses travel as `asdict` gives them, with messages as `errors.messages_to_json` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
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
MAX_DEPTH = 16
"""Of nested lists and objects: no message of ours has more than six."""
_MAX_NUMBER = 1 << 64
Name = Annotated[str, Field(max_length=256)]
TaskId = Annotated[str, Field(pattern=r"^[!-~]{1,128}$")]
OptionValue = bool | int | float | str
Index = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=0, lt=1 << 31)]
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

    What comes from another machine may be anything: for what is not valid, decoding and
    `check` raise an exception of whatever class.
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
        """The result of a worker, if it is valid, with our own judgement of its quality."""


@dataclass(frozen=True)
class TaskHeaders:
    """What a worker uses of a message's headers; the names are Celery's."""

    task: Name
    id: TaskId
    retries: Count = 0
    expires: Annotated[str, Field(max_length=64)] | None = None
    argsrepr: Annotated[str, Field(max_length=10_000)] | None = None
    kwargsrepr: Annotated[str, Field(max_length=10_000)] | None = None
    origin: Name | None = None
    ignore_result: bool | None = None


@dataclass(frozen=True)
class TaskRequest:
    """Items for one engine."""

    kind: Name
    engine: EngineId
    """What the worker's engine must be equal to."""
    items: Annotated[tuple[tuple[Index, Any], ...], Field(max_length=MAX_ITEMS)]
    """Index and encoded item."""
    precision: Name = "fp32"
    """Precision class that results are cached under."""
    options: Annotated[Mapping[Name, OptionValue], Field(max_length=256)] = field(
        default_factory=dict
    )
    lane: Name = "bulk"
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

    results: Annotated[Mapping[int, dict[str, Any]], Field(max_length=MAX_ITEMS)] = field(
        default_factory=dict
    )
    """The facts of each; its bytes are in the blob."""
    sizes: Annotated[tuple[Size, ...], Field(max_length=MAX_ITEMS)] = ()
    """Of each result, in bytes."""
    failures: Annotated[
        Mapping[int, Annotated[ItemFailure, WrapValidator(_parse_failure)]],
        Field(max_length=MAX_ITEMS),
    ] = field(default_factory=dict)
    returned: Annotated[tuple[Index, ...], Field(max_length=MAX_ITEMS)] = ()
    """Not computed: the task was revoked, the worker is draining, or the result grew too large."""
    refused: Text = ""
    """Why the worker did nothing at all."""
    cost: Amount = 0.0
    seconds: Amount = 0.0
    num_batches: Count = 0
    num_out_of_memory: Count = 0

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


def parse_headers(value: Any) -> dict[str, Any]:
    """The headers of a task's message, without those that a worker does not use."""
    found = _parse(_HEADERS, value, "message")
    if value.get("eta"):
        raise InvalidInputError("invalid message: it asks for a delay", hint=_HINT)
    if found.expires is not None:
        try:
            datetime.fromisoformat(found.expires).astimezone(UTC)
        except (ValueError, OverflowError):
            raise InvalidInputError("invalid message: expires", hint=_HINT) from None
    return asdict(found)


def parse_arguments(value: Any) -> None:
    """Check the body of a task's message: arguments, keywords, and no task that follows it."""
    valid = isinstance(value, list) and [type(part) for part in value] == [list, dict, dict]
    if not valid or any(value[2].values()):
        raise InvalidInputError("invalid message: not the body of one task", hint=_HINT)
    _check_values(value, "message")


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


_HEADERS, _REQUEST = TypeAdapter(TaskHeaders), TypeAdapter(TaskRequest)
_RESULT = TypeAdapter(TaskResult)


def _check_values(value: Any, what: str) -> None:
    """Refuse what later code could not compute with or walk through, wherever it is."""
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"invalid {what}: nested too deeply", hint=_HINT)
        following: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                following.extend(one.values())
            elif isinstance(one, list | tuple):
                following.extend(one)
            elif isinstance(one, int | float) and not abs(one) < _MAX_NUMBER:
                raise InvalidInputError(f"invalid {what}: a number is too large", hint=_HINT)
        level, depth = following, depth + 1


def _parse(kind: TypeAdapter[T], value: Any, what: str) -> T:
    _check_values(value, what)
    try:
        return kind.validate_python(value)
    except Exception as error:  # noqa: BLE001 - whatever it contains, it is not valid
        first = type(error).__name__
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
