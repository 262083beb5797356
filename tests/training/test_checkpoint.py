"""Checkpoints: what is written comes back, damage is noticed, and weights fit their model."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from anyrig.errors import InvalidInputError, StorageError
from anyrig.training.checkpoint import (
    Checkpointer,
    DamagedCheckpointError,
    TrainingState,
    decode_values,
    encode_values,
    format_manifest,
    inspect_checkpoint,
    read_checkpoint,
)
from anyrig.training.distributed.group import Group, check_weights
from anyrig.training.rng import capture, derive_seed, restore

FILES = ("weights.safetensors", "optimiser.safetensors", "random.safetensors", "state.json",
         "manifest.json")  # fmt: skip


def write(folder: Path, state: TrainingState) -> Path:
    with Checkpointer(folder) as checkpointer:
        checkpointer.save(state)
        checkpointer.wait()
        latest = checkpointer.latest()
        assert latest is not None
        return latest.path


def write_and_read(folder: Path, state: TrainingState) -> TrainingState:
    return read_checkpoint(write(folder, state))


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return (
            left.dtype == right.dtype
            and left.shape == right.shape
            and bytes_of(left) == bytes_of(right)
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return (
            type(left) is type(right) and all(map(equal, left, right)) and len(left) == len(right)
        )
    return bool(left == right) and type(left) is type(right)


def bytes_of(tensor: torch.Tensor) -> bytes:
    if not tensor.numel():
        return b""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _last(convolution: nn.Conv2d) -> nn.Conv2d:
    weight = convolution.weight.detach().contiguous(memory_format=torch.channels_last)
    convolution.weight = nn.Parameter(weight)
    return convolution


def stepped(make: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = nn.Sequential(_last(nn.Conv2d(3, 4, 3)), nn.BatchNorm2d(4), nn.Flatten())
    optimiser = make(model.parameters())
    for _ in range(3):
        optimiser.zero_grad()
        model(torch.randn(2, 3, 5, 5)).square().sum().backward()
        optimiser.step()
    return model, optimiser


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, amsgrad=True),
        lambda p: torch.optim.Adam([{"params": list(p), "lr": torch.tensor(0.01)}], foreach=False),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.Adafactor(p),
        lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True),
        lambda p: torch.optim.NAdam(p),
    ],
    ids="amsgrad adam-tensor-rate nesterov sgd adafactor rmsprop nadam".split(),
)
def test_states_of_optimisers(make: Any, tmp_path: Path) -> None:
    model, optimiser = stepped(make)
    saved = TrainingState(7, 2, model.state_dict(), optimiser.state_dict(), {"a": 1}, {}, 0.1 + 0.2)
    found = write_and_read(tmp_path, saved)
    assert equal(dict(found.weights), dict(saved.weights))
    assert equal(found.optimizer, saved.optimizer)
    assert (found.step, found.epoch, found.plain, found.loss) == (7, 2, {"a": 1}, 0.1 + 0.2)
    again, other = stepped(make)
    again.load_state_dict(dict(found.weights))
    other.load_state_dict(dict(found.optimizer))
    assert equal(other.state_dict(), optimiser.state_dict())


DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e8m0fnu, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool,
    torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_kind_of_number(dtype: torch.dtype, tmp_path: Path) -> None:
    size = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, (24 * size,), dtype=torch.uint8)
    tensor = raw.view(dtype).reshape(2, 3, 4)
    weights = {"all": tensor, "one": tensor[0, 0, 0], "none": tensor[:0], "turned": tensor.mT}
    found = write_and_read(tmp_path, TrainingState(1, weights=weights, optimizer={"x": [tensor]}))
    assert bytes_of(found.weights["all"]) == bytes_of(tensor)  # every bit, nan and all
    assert [found.weights[n].shape for n in weights] == [weights[n].shape for n in weights]
    assert {value.dtype for value in found.weights.values()} == {dtype}
    assert bytes_of(found.weights["turned"]) == bytes_of(tensor.mT)
    assert bytes_of(found.optimizer["x"][0]) == bytes_of(tensor)


def test_other_programs_read_the_weights(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    weights = {"a.b": torch.randn(3, 4), "half": torch.randn(5).half(), "eight":
               torch.randn(4).to(torch.float8_e4m3fn), "none": torch.empty(0, 2)}  # fmt: skip
    path = write(tmp_path, TrainingState(1, weights=weights))
    assert equal(load_file(path / FILES[0]), dict(sorted(weights.items()))) or all(
        equal(load_file(path / FILES[0])[name], weights[name]) for name in weights
    )


def test_tied_weights_are_kept_once_and_come_back_tied(tmp_path: Path) -> None:
    table = torch.randn(100, 8)
    weights = {"wte": table, "head": table, "part": table[:10], "again": table}
    path = write(tmp_path, TrainingState(1, weights=weights))
    assert (path / FILES[0]).stat().st_size < 100 * 8 * 4 + 10 * 8 * 4 + 1000
    found = read_checkpoint(path).weights
    assert list(found) == list(weights)
    assert found["wte"] is found["head"] is found["again"]
    assert torch.equal(found["part"], table[:10])


def test_names_of_any_kind(tmp_path: Path) -> None:
    names = ["x" * 20_000, "ünï.cødé", "with space", 'quote"', "back\\slash", "", "\n", "../up",
             "t0", "$tensor"]  # fmt: skip
    weights = {name: torch.full((2,), float(n)) for n, name in enumerate(names)}
    found = write_and_read(tmp_path, TrainingState(1, weights=weights, plain={n: n for n in names}))
    assert {name: value[0].item() for name, value in found.weights.items()} == {
        name: float(n) for n, name in enumerate(names)
    }
    assert found.plain == {n: n for n in names}


@pytest.mark.parametrize(
    "tensor", [torch.empty(2, device="meta"), torch.eye(2).to_sparse()], ids=["meta", "sparse"]
)
def test_tensors_that_cannot_be_kept_are_named(tensor: torch.Tensor, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="body.weight"):
        write(tmp_path, TrainingState(1, weights={"body.weight": tensor}))


def test_the_formats_own_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="__metadata__"):
        write(tmp_path / "c", TrainingState(1, weights={"__metadata__": torch.ones(1)}))
    assert [path.name for path in (tmp_path / "c").iterdir()] == [".lock"]


def test_an_optimizer_gets_its_state_in_the_memory_order_of_its_weights(tmp_path: Path) -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, fused=True)

    model, optimizer = stepped(make)
    group = Group()
    state = group.optimizer_state_dict(model, optimizer)
    found = write_and_read(tmp_path, TrainingState(1, weights=model.state_dict(), optimizer=state))
    again, other = stepped(make)
    group.load_state_dict(again, other, found.weights, found.optimizer)
    for one, loaded in ((model, optimizer), (again, other)):
        one(torch.ones(2, 3, 5, 5)).square().sum().backward()
        loaded.step()
    assert not next(model.parameters()).is_contiguous()
    for before, after in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(before, after)
        assert other.state[after]["exp_avg"].stride() == after.stride()


# ---------------------------------------------------------------- damage


def filled(folder: Path) -> Path:
    saved = TrainingState(
        5, 1, {"w": torch.randn(40, 40)}, {"state": {0: {"m": torch.randn(40, 40)}}},
        {"position": 17}, {0: {"torch": torch.get_rng_state()}},
    )  # fmt: skip
    return write(folder, saved)


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_noticed(name: str, tmp_path: Path) -> None:
    path = filled(tmp_path)
    data = (path / name).read_bytes()
    for length in {0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1}:
        (path / name).write_bytes(data[:length])
        with pytest.raises(DamagedCheckpointError, match="damaged") as caught:
            read_checkpoint(path)
        assert caught.value.hint
    (path / name).write_bytes(data + b"x")
    with pytest.raises(DamagedCheckpointError, match="damaged"):
        read_checkpoint(path)
    (path / name).unlink()
    with pytest.raises(DamagedCheckpointError, match="damaged"):
        read_checkpoint(path)
    (path / name).write_bytes(data)
    assert read_checkpoint(path).step == 5


@pytest.mark.parametrize("name", FILES)
def test_one_bit_anywhere_is_noticed(name: str, tmp_path: Path) -> None:
    path = filled(tmp_path)
    data = bytearray((path / name).read_bytes())
    places = {*range(0, min(len(data), 600), 7), len(data) // 2, len(data) - 2}
    for place in places:
        for bit in (0, 6):
            data[place] ^= 1 << bit
            (path / name).write_bytes(data)
            with pytest.raises(DamagedCheckpointError):
                read_checkpoint(path)
            data[place] ^= 1 << bit
    (path / name).write_bytes(data)
    assert read_checkpoint(path).step == 5


def test_a_later_format_is_refused_in_words(tmp_path: Path) -> None:
    path = filled(tmp_path)
    told = json.loads((path / "manifest.json").read_text())["manifest"]
    (path / "manifest.json").write_text(format_manifest({**told, "format": 99}))
    with pytest.raises(StorageError, match="format 99"):
        inspect_checkpoint(path)


# ---------------------------------------------------------------- disks that refuse


LARGE = """
import resource, signal, sys, torch
from pathlib import Path
from anyrig.errors import StorageError
from anyrig.training.checkpoint import Checkpointer, TrainingState
folder = Path(sys.argv[1])
keeper = Checkpointer(folder)
keeper.save(TrainingState(1, weights={"w": torch.ones(100)}), wait=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    keeper.save(TrainingState(2, weights={"w": torch.ones(1_000_000)}), wait=True)
except StorageError as error:
    print(error.message, "|", error.hint)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
keeper.save(TrainingState(3, weights={"w": torch.ones(100)}), wait=True)
keeper.close()
print(sorted(path.name for path in folder.iterdir()))
"""


def test_a_disk_that_fills_up_leaves_nothing_half_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "c")],
        capture_output=True,
        text=True,
        check=True,
    )
    said, names = done.stdout.splitlines()
    assert "File too large" in said
    assert "unchanged" in said
    assert names == "['.lock', 'step-00000001', 'step-00000003']"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("may not mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    keeper = Checkpointer(small_disk / "run")
    keeper.save(TrainingState(1, weights={"w": torch.ones(100_000)}), wait=True)
    with pytest.raises(StorageError, match="left") as caught:
        keeper.save(TrainingState(2, weights={"w": torch.ones(600_000)}), wait=True)
    assert "Free disk space" in caught.value.hint
    (small_disk / "filler").write_bytes(bytes(2_000_000))
    with pytest.raises(StorageError):
        keeper.save(TrainingState(3, weights={"w": torch.ones(150_000)}), wait=True)
    found = keeper.load()
    assert found is not None
    assert found.state.step == 1
    assert sorted(p.name for p in (small_disk / "run").iterdir()) == [".lock", "step-00000001"]
    (small_disk / "filler").unlink()
    keeper.save(TrainingState(4, weights={"w": torch.ones(100_000)}), wait=True)
    assert [one.step for one in keeper.all()] == [1, 4]
    keeper.close()


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x")
    with pytest.raises(StorageError):
        Checkpointer(tmp_path / "run").save(TrainingState(1))


def test_a_read_only_folder(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="cannot write"):
            Checkpointer(tmp_path / "run").save(TrainingState(1))
    finally:
        tmp_path.chmod(0o700)


def round_trip(value: Any) -> Any:
    kept: dict[str, torch.Tensor] = {}

    def take(tensor: torch.Tensor) -> str:
        kept[f"t{len(kept)}"] = tensor
        return f"t{len(kept) - 1}"

    text = json.dumps(encode_values(value, take), allow_nan=False)
    return decode_values(json.loads(text), kept)


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
        encode_values({"deep": [0, {"here": value}]}, lambda tensor: "", "state")
    assert "Use numbers" in caught.value.hint


@pytest.mark.parametrize("value", [{"$run": "x"}, {"$dtype": "nn"}, {"$float": "x"}])
def test_unknown_tags_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        decode_values(value, {})


def test_a_missing_tensor_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        decode_values({"$tensor": "t9"}, {})


def net(width: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))


def test_its_own_weights_fit() -> None:
    check_weights(net(), net().state_dict())


class Wrapped(nn.Module):
    """Named as torch.compile names what it wraps."""

    def __init__(self) -> None:
        super().__init__()
        self._orig_mod = net()


def test_a_compiled_model_takes_plain_names() -> None:
    check_weights(Wrapped(), net().state_dict())


def test_missing_unexpected_and_shapes_are_named() -> None:
    weights = net(5).state_dict()
    weights["3.bias"] = weights.pop("2.bias")
    with pytest.raises(InvalidInputError) as caught:
        check_weights(net(), weights)
    said = caught.value.message
    assert "lack 2.bias" in said
    assert "does not know 3.bias" in said
    assert "0.weight is 5x3, the model's 4x3" in said
    assert caught.value.hint


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model."])
def test_a_prefix_is_recognised(prefix: str) -> None:
    weights = {prefix + name: value for name, value in net().state_dict().items()}
    with pytest.raises(InvalidInputError) as caught:
        check_weights(net(), weights)
    assert prefix in caught.value.hint


def test_one_name_of_tied_weights_is_enough() -> None:
    model = nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 7, bias=False))
    model[1].weight = model[0].weight
    check_weights(model, {"0.weight": torch.zeros(7, 3)})
    check_weights(model, {"1.weight": torch.zeros(7, 3)})
    with pytest.raises(InvalidInputError, match="lack"):
        check_weights(model, {})


def drawn() -> list[Any]:
    return [torch.rand(3).tolist(), random.random(), random.gauss(0, 1),
            np.random.rand(), np.random.randn()]  # fmt: skip


def test_every_source_goes_on() -> None:
    drawn()  # an odd number of gaussians: the kept half of a pair is part of the state
    state = capture()
    first = drawn()
    assert drawn() != first
    assert restore({0: state}) == []
    assert drawn() == first


def test_the_state_survives_being_written() -> None:
    kept: dict[str, torch.Tensor] = {}

    def take(tensor: torch.Tensor) -> str:
        kept[f"t{len(kept)}"] = tensor.clone()
        return f"t{len(kept) - 1}"

    told = encode_values({3: capture()}, take)
    first = drawn()
    restore(decode_values(told, kept), rank=3)
    assert drawn() == first


def test_a_captured_state_does_not_move_on() -> None:
    state = capture()
    before = state["torch"].clone()
    torch.rand(1000)
    assert torch.equal(state["torch"], before)


def test_a_rank_without_a_state_gets_its_own() -> None:
    state = {0: capture()}
    (told,) = restore(state, 1, seed=4, step=10)
    assert "process 1" in told
    first = drawn()
    restore(state, 1, seed=4, step=10)
    assert drawn() == first
    for rank, seed, step in ((2, 4, 10), (1, 5, 10), (1, 4, 11)):
        restore(state, rank, seed=seed, step=step)
        assert drawn() != first


def test_derived_numbers_differ_and_fit() -> None:
    found = {derive_seed(s, t, r) for s in range(5) for t in range(20) for r in range(8)}
    assert len(found) == 800
    assert all(0 <= one < 2**63 for one in found)
