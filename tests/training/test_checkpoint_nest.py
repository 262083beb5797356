"""Nests come back exactly: types, order, keys, bits."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyrig.errors import InvalidInputError
from anyrig.training.checkpoint.nest import decode, encode


def round_trip(value: Any) -> Any:
    kept: dict[str, torch.Tensor] = {}

    def take(tensor: torch.Tensor) -> str:
        kept[f"t{len(kept)}"] = tensor
        return f"t{len(kept) - 1}"

    text = json.dumps(encode(value, take), allow_nan=False)
    return decode(json.loads(text), kept)


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left is right
    if isinstance(left, float):
        return left.hex() == right.hex() if math.isfinite(left) else repr(left) == repr(right)
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(
            same(a, b) and same(x, y) for (a, x), (b, y) in pairs
        )
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.complex_numbers(allow_nan=False),
)  # fmt: skip
KEYS = st.one_of(
    st.text(), st.integers(), st.none(), st.booleans(), st.tuples(st.integers(), st.text())
)
NESTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(KEYS, inner)
    ),
    max_leaves=25,
)


@given(NESTS)
def test_any_nest(value: Any) -> None:
    assert same(round_trip(value), value)


@pytest.mark.parametrize(
    "value",
    [
        {"$tensor": "t0"}, {"$": 1}, {"$pairs": []}, {"$tuple": {"$float": "x"}}, {1: {True: ()}},
        torch.float8_e4m3fn, torch.bfloat16, torch.device("cuda", 1), torch.Size([2, 3]),
        {1, 2, 3}, frozenset({"a"}), [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2],
        10**400, "\ud800" "x", {"": {"": {}}},
    ],
    ids=repr,
)  # fmt: skip
def test_odd_values(value: Any) -> None:
    assert same(round_trip(value), value)


def test_tensors_keep_their_places_and_twins() -> None:
    one, other = torch.ones(2), torch.zeros(())
    found = round_trip({"a": [one, (other, one)], 3: {"b": None, "c": other}})
    assert found["a"][0] is one
    assert found["a"][1] == (other, one)
    assert found[3] == {"b": None, "c": other}


def test_numbers_of_numpy_become_plain() -> None:
    import numpy as np

    found = round_trip([np.float64(0.1), np.float32(0.5), np.int64(7), np.bool_(True)])
    assert found == [0.1, 0.5, 7, True]
    assert [type(one) for one in found] == [float, float, int, bool]


@pytest.mark.parametrize("value", [object(), lambda: None, open, torch.nn.Linear(1, 1)])
def test_what_cannot_be_kept_is_named(value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"state\.deep\[1\]\.here is a") as caught:
        encode({"deep": [0, {"here": value}]}, lambda tensor: "", "state")
    assert "can be kept" in caught.value.hint


@pytest.mark.parametrize("value", [{"$run": "x"}, {"$dtype": "nn"}, {"$float": "x"}])
def test_unknown_tags_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        decode(value, {})


def test_a_missing_tensor_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        decode({"$tensor": "t9"}, {})
