from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

import pytest

from anyrig import errors
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    InvalidOptionError,
    LimitExceededError,
    OutOfMemoryError,
    error_from_dict,
    error_to_dict,
)


def _tree(kind: type[AnyrigError]) -> Iterator[type[AnyrigError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


KINDS = [kind for kind in _tree(AnyrigError) if not kind.__name__.startswith("_")]


def test_every_error_demands_a_hint(subtests: pytest.Subtests) -> None:
    for kind in [kind for kind in KINDS if not issubclass(kind, InvalidOptionError)]:
        with subtests.test(kind=kind):
            with pytest.raises(TypeError, match="hint"):
                kind("went wrong")  # type: ignore[call-arg]
            error = kind("went wrong", hint="do this")
            assert (str(error), error.hint) == ("went wrong", "do this")
            assert 1 <= error.exit_code <= 125


def test_the_drawn_tree_shows_every_error_with_its_exit_code(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            drawing = inspect.getdoc(errors) or ""
            rows = [line for line in drawing.splitlines() if kind.__name__ in line.split()]
            rows += [line for line in drawing.splitlines() if f"─ {kind.__name__} " in line]
            assert rows, f"{kind.__name__} is not drawn"
            assert f" {kind.exit_code} " in rows[0]


def test_an_error_crosses_processes_with_its_class_hint_and_fields() -> None:
    class Own(LimitExceededError):
        pass

    memory = OutOfMemoryError("full", hint="b")
    memory.devices, memory.on_host = ("gpu-1",), True
    for error in (memory, Own("large", hint="b", limit="pages"), InvalidInputError("c", hint="")):
        row = error_to_dict(error)
        crossed = error_from_dict(json.loads(json.dumps(row)))
        assert type(crossed) is (LimitExceededError if type(error) is Own else type(error))
        assert vars(crossed) == vars(error)
    option = errors.InvalidOptionError("rate", "must be a number", value="x", hint="Give one.")
    crossed = error_from_dict(json.loads(json.dumps(error_to_dict(option))))
    assert type(crossed) is errors.InvalidOptionError
    assert vars(crossed) == vars(option)
    unknown = error_from_dict({"class": "Mapping", "message": "a", "hint": "b"})
    assert type(unknown) is errors.WorkError
