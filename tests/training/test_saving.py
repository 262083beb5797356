"""Less memory: activations are recomputed or offloaded, and the step stays the same."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from anyrig.errors import InvalidSettingError
from anyrig.training import TrainConfig, Trainer
from anyrig.training.estimate import MemoryTracker
from anyrig.training.memory import (
    RecomputeMode,
    find_blocks,
    offload_optimizer,
    recompute,
)
from anyrig.training.models.gpt import PRESETS, Gpt
from benchmarks.resnet import Resnet, ResnetShape
from examples.train.diffusion import Unet

HOWS: tuple[RecomputeMode, ...] = ("blocks", "selective")


class Unit(nn.Module):
    """A bit of all that can go wrong: statistics, overwriting, dropout, a keyword, no tensor."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.across = nn.Conv2d(width, width, 3, padding=1)
        self.norm, self.relu = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.3)

    def forward(
        self, states: torch.Tensor, share: float = 1.0, *, extra: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, str]:
        made = self.relu(self.across(self.relu(self.norm(self.conv(states)))))
        made = states + share * self.drop(made)
        return (made if extra is None else made + extra), "done"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.units = nn.ModuleList(Unit() for _ in range(3))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        states = self.stem(pictures)
        for unit in self.units:
            states, word = unit(states, 0.5, extra=states.detach())
            assert word == "done"
        found: torch.Tensor = states.mean((2, 3))
        return found


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = states + self.down(F.gelu(self.up(self.norm(states))))
        return changed


def after(model: nn.Module, given: torch.Tensor, half: bool = False) -> list[torch.Tensor]:
    """Gradients and buffers after a step, and the output."""
    torch.manual_seed(5)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        output = model(given)
    output.float().square().mean().backward()
    found = [one.grad.clone() for one in model.parameters() if one.grad is not None]
    return [*found, *(one.clone() for one in model.buffers()), output.detach()]


def same(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


# -- which blocks ----------------------------------------------------------------------------------


def _bert() -> nn.Module:
    transformers: Any = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    made: nn.Module = transformers.BertForMaskedLM(config)
    return made


def _bart() -> nn.Module:
    transformers: Any = pytest.importorskip("transformers")
    config = transformers.BartConfig(
        vocab_size=64, d_model=16, encoder_layers=2, decoder_layers=3, encoder_ffn_dim=32,
        decoder_ffn_dim=32, encoder_attention_heads=2, decoder_attention_heads=2,
    )  # fmt: skip
    made: nn.Module = transformers.BartModel(config)
    return made


@pytest.mark.parametrize(
    ("make", "kinds", "count"),
    [
        (lambda: Gpt(PRESETS["nano"]), {"GptBlock"}, 2),
        (_bert, {"BertLayer"}, 3),
        (_bart, {"BartEncoderLayer", "BartDecoderLayer"}, 5),
        # The units, not the stages that they are in.
        (lambda: Resnet(ResnetShape(width=8, stages=(3, 4, 6, 3))), {"Bottleneck"}, 16),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 4),
         {"TransformerEncoderLayer"}, 4),
        (lambda: nn.Sequential(Mlp(), Mlp()), {"Mlp"}, 2),
    ],
    ids=["gpt", "bert", "bart", "resnet", "encoder", "sequence"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_the_repeated_blocks_are_found(
    make: Callable[[], nn.Module], kinds: set[str], count: int
) -> None:
    found = find_blocks(make())
    assert {type(one).__name__ for one in found.values()} == kinds
    assert len(found) == count


def test_a_unets_blocks_hold_most_of_it() -> None:
    model = Unet(width=32, factors=(1, 2, 2))
    found = find_blocks(model)
    inside = sum(w.numel() for one in found.values() for w in one.parameters())
    assert inside > 0.7 * sum(one.numel() for one in model.parameters())


def test_blocks_that_are_plain_attributes_are_found() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Mlp(), Mlp()

    assert set(find_blocks(Two())) == {"first", "second"}


def test_named_classes_win_and_unknown_ones_are_refused() -> None:
    model = Gpt(PRESETS["nano"])
    assert len(find_blocks(model, ["GptMlp"])) == 2
    # One inside another is not computed twice over.
    assert all(type(one).__name__ == "GptBlock" for one in
               find_blocks(model, ["GptMlp", "GptBlock"]).values())  # fmt: skip
    with pytest.raises(InvalidSettingError, match="GptBlok") as caught:
        find_blocks(model, ["GptBlok"])
    assert "GptBlock" in caught.value.hint


class Plain(nn.Module):
    """Layers as attributes, none of them repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.second(torch.relu(self.first(inputs)))
        return made


def _deep() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(8):
        layers += [nn.Linear(8, 8), nn.BatchNorm1d(8), nn.SiLU(inplace=True), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(8, 2))


class OneLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Mlp()])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(8, 2),
        lambda: nn.Sequential(nn.Linear(8, 2)),
        lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 2)),
        _deep,
        Plain,
        OneLayer,
        lambda: nn.Sequential(nn.SiLU(inplace=True), Plain()),
        lambda: nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 2)),
    ],
    ids=["linear", "one", "three", "deep", "attributes", "layer", "inplace", "nested"],
)
def test_a_model_without_repeated_blocks_is_recomputed_too(
    make: Callable[[], nn.Module], how: Any
) -> None:
    torch.manual_seed(0)
    plain = make()
    again = copy.deepcopy(plain)
    inputs, found = torch.randn(6, 8), []
    done = recompute(again, how)
    assert done.names
    assert "computed again" in done.reason
    for model in (plain, again, copy.deepcopy(again)):
        torch.manual_seed(1)
        made = model(inputs.clone())
        made.square().mean().backward()
        found.append([made.detach(), *(one.grad for one in model.parameters()), *model.buffers()])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.equal(one, two)
    assert torch.equal(plain.eval()(inputs.clone()), again.eval()(inputs.clone()))
    done.undo()
    assert not any("forward" in one.__dict__ for one in again.modules())


def test_a_language_model_of_one_layer_recomputes_that_layer() -> None:
    shape = dataclasses.replace(PRESETS["nano"], layers=1)
    done = recompute(Gpt(shape))
    assert (done.kinds, len(done.names)) == (("GptBlock",), 1)


def test_a_trainer_recomputes_a_plain_sequence() -> None:
    inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))
    curves = []
    hows: tuple[Any, ...] = ("none", *HOWS)
    for how in hows:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        settings = TrainConfig(batch=8, micro_batch=8, epochs=2, recompute=how, precision="fp32")
        with Trainer(
            net, data=inputs, loss=lambda net, batch: net(batch).square().mean(),
            config=settings, device="cpu",
        ) as trainer:  # fmt: skip
            trainer.run()
            curves.append([row.loss for row in trainer.history()])
    assert curves[0] == curves[1] == curves[2]


def test_a_plain_sequence_keeps_less() -> None:
    model, inputs = _deep(), torch.randn(64, 8)
    kept = []
    for how in (None, "blocks"):
        with recompute(model, "blocks") if how else contextlib.nullcontext():
            sizes: list[int] = []

            def hold(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
                sizes.append(tensor.numel())
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
                model(inputs)
            kept.append(sum(sizes))
    assert kept[1] < 0.3 * kept[0]


# -- what changes, and what does not ---------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
def test_gradients_statistics_and_dropout_are_the_same(how: RecomputeMode, half: bool) -> None:
    plain = Net()
    other = copy.deepcopy(plain)
    recompute(other, how)
    given = torch.randn(4, 3, 8, 8)
    assert same(after(plain, given, half), after(other, given, half))
    assert same(after(plain, given, half), after(other, given, half))


@pytest.mark.parametrize("how", HOWS)
def test_a_language_model_in_double_precision_is_the_same(how: RecomputeMode) -> None:
    plain = Gpt(PRESETS["nano"]).double()
    other = copy.deepcopy(plain)
    recompute(other, how)
    tokens = torch.randint(256, (2, 32))
    assert same(after(plain, tokens), after(other, tokens))


@pytest.mark.parametrize("how", HOWS)
def test_a_layer_that_is_used_several_times_under_autocast(how: RecomputeMode) -> None:
    """The weights' casts are remembered by autocast in the first pass, not in the second."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Mlp(), Mlp()])

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            for number in range(4):
                states = self.layers[number % 2](states)
            return states

    plain = Shared()
    other = copy.deepcopy(plain)
    recompute(other, how)
    given = torch.randn(3, 8)
    for a, b in zip(after(plain, given, True), after(other, given, True), strict=True):
        torch.testing.assert_close(a, b, rtol=0.02, atol=1e-3)


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operation that runs."""

    names: tuple[str, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names += (str(func),)
        return func(*args, **(kwargs or {}))

    def count(self, part: str) -> int:
        return sum(f"aten.{part}" in name for name in self.names)


def _peak(model: nn.Module, tokens: torch.Tensor) -> int:
    tracker = MemoryTracker()
    with tracker:
        model(tokens).square().mean().backward()
    return tracker.peak_bytes


def test_less_is_kept_the_more_is_computed_again() -> None:
    model = Gpt(PRESETS["tiny"])
    tokens = torch.randint(256, (4, 128))
    plain = _peak(model, tokens)
    model.zero_grad()
    with recompute(model, "selective"):
        selective = _peak(model, tokens)
        model.zero_grad()
    with recompute(model, "blocks"):
        blocks = _peak(model, tokens)
    assert blocks < 0.6 * plain
    assert blocks < selective < 0.8 * plain


def test_selective_runs_no_product_again() -> None:
    model = nn.Sequential(Mlp(), Mlp(), Mlp())
    counts = {}
    for how in ("plain", *HOWS):
        undo = None if how == "plain" else recompute(model, how)  # type: ignore[arg-type]
        with Calls() as calls:  # type: ignore[no-untyped-call]
            model(torch.randn(2, 8)).sum().backward()
        counts[how] = calls.count("addmm"), calls.count("gelu.default")
        if undo is not None:
            undo.undo()
    assert counts["plain"] == (6, 3)
    assert counts["selective"] == (6, 6)
    # The last product of a block is not needed again: its gradient knows its inputs.
    assert counts["blocks"] == (6 + 3, 6)


def test_the_model_stays_what_it_is() -> None:
    model = Net()
    names, kind = list(model.state_dict()), type(model.units[0])
    with recompute(model, "selective") as changed:
        assert list(model.state_dict()) == names
        assert type(model.units[0]) is kind
        assert changed.names == ("units.0", "units.1", "units.2")
        assert changed.kinds == ("Unit",)
        assert "3 blocks (Unit)" in changed.reason
        changed_names = {n for n, one in model.named_modules() if "forward" in one.__dict__}
        assert changed_names == set(changed.names)
        assert not model.units[0].relu.inplace  # type: ignore[union-attr]
    assert "forward" not in model.units[0].__dict__
    assert model.units[0].relu.inplace  # type: ignore[union-attr]


def test_evaluation_and_no_gradients_run_as_before() -> None:
    model = nn.Sequential(Mlp(), Mlp())
    recompute(model)
    calls = []
    model[0].up.register_forward_hook(lambda *_: calls.append(1))  # type: ignore[union-attr]
    given = torch.randn(2, 8, requires_grad=True)
    model.eval()
    model(given).sum().backward()
    assert len(calls) == 1
    model.train()
    with torch.no_grad():
        model(given)
    assert len(calls) == 2
    model(given).sum().backward()
    assert len(calls) == 4


def test_hooks_on_a_block_are_called_once() -> None:
    model = nn.Sequential(Mlp(), Mlp())
    calls: list[str] = []
    model[0].register_forward_hook(lambda *_: calls.append("forward"))
    model[0].register_full_backward_hook(lambda *_: calls.append("backward"))
    for weight in model[0].parameters():
        weight.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda _: calls.append("weight")
        )
    recompute(model)
    model(torch.randn(2, 8, requires_grad=True)).sum().backward()
    assert sorted(calls) == ["backward", "forward", *["weight"] * 6]


def test_twice_is_refused_and_so_is_a_compiled_model() -> None:
    model = nn.Sequential(Mlp(), Mlp())
    recompute(model)
    with pytest.raises(InvalidSettingError, match="already"):
        recompute(model, "selective")
    with pytest.raises(InvalidSettingError, match="unknown way"):
        recompute(nn.Sequential(Mlp(), Mlp()), "all")  # type: ignore[arg-type]
    with pytest.raises(InvalidSettingError, match="compiled"):
        recompute(torch.compile(nn.Sequential(Mlp(), Mlp()), backend="eager"))  # type: ignore[arg-type]


def test_copies_and_pickles_have_blocks_of_their_own() -> None:
    model = nn.Sequential(Mlp(), Mlp())
    recompute(model)
    given = torch.randn(2, 8)
    kept = io.BytesIO()
    pickle.dump(model, kept)
    for other in (copy.deepcopy(model), pickle.loads(kept.getvalue())):
        assert other[0].__dict__["forward"].block is other[0]
        assert same(after(model, given), after(other, given))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
def test_a_compiled_model_is_the_same(how: RecomputeMode, half: bool) -> None:
    plain = nn.Sequential(Mlp(), Mlp())
    other = copy.deepcopy(plain)
    recompute(other, how)
    torch._dynamo.reset()
    compiled: Any = torch.compile(other, backend="aot_eager", fullgraph=True)
    given = torch.randn(2, 8)
    expected = after(plain, given, half)
    for a, b in zip(expected, after(compiled, given, half), strict=True):
        torch.testing.assert_close(a, b, rtol=0.02 if half else 1e-5, atol=1e-3 if half else 1e-6)


def gradients(model: nn.Module) -> list[torch.Tensor]:
    found = [one.grad.clone() for one in model.parameters() if one.grad is not None]
    model.zero_grad()
    return found


# -- the optimiser's state ------------------------------------------------------------------------


def optimisers() -> Iterator[tuple[Any, dict[str, Any]]]:
    yield torch.optim.AdamW, {"fused": True}
    yield torch.optim.AdamW, {"foreach": True, "amsgrad": True}
    yield torch.optim.SGD, {"momentum": 0.9}
    yield torch.optim.Adafactor, {}


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 2))


def grouped(model: nn.Module) -> list[dict[str, Any]]:
    weights = list(model.parameters())
    return [{"params": weights[::2], "lr": 0.1}, {"params": weights[1::2], "lr": 0.05}]


def train(model: nn.Module, rule: torch.optim.Optimizer, schedule: object, steps: int) -> None:
    draw = torch.Generator().manual_seed(3)
    for _ in range(steps):
        model(torch.randn(5, 6, generator=draw)).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        rule.step()
        schedule.step()  # type: ignore[attr-defined]
        rule.zero_grad()


@pytest.mark.parametrize(("kind", "options"), list(optimisers()))
@pytest.mark.parametrize("piece", [1, 200, 1 << 20])
def test_a_step_in_pieces_is_the_same_step(kind: Any, options: dict[str, Any], piece: int) -> None:
    plain, other = small(), small()
    for model, offloaded in ((plain, False), (other, True)):
        rule = kind(grouped(model), **options)
        if offloaded:
            offload_optimizer(rule, piece_bytes=piece)
        schedule = torch.optim.lr_scheduler.LambdaLR(rule, lambda step: 0.9**step)
        train(model, rule, schedule, 5)
    assert all(
        torch.equal(a, b) for a, b in zip(plain.parameters(), other.parameters(), strict=True)
    )


@pytest.mark.parametrize("fused", [True, False])
def test_state_goes_into_a_checkpoint_and_comes_out_of_it(fused: bool) -> None:
    model = small()
    rule = torch.optim.AdamW(grouped(model), fused=fused)
    train(model, rule, torch.optim.lr_scheduler.ConstantLR(rule, 1.0), 2)
    saved = copy.deepcopy((model.state_dict(), rule.state_dict()))
    train(model, rule, torch.optim.lr_scheduler.ConstantLR(rule, 1.0), 3)

    again = small()
    resumed = torch.optim.AdamW(grouped(again), fused=fused)
    offload_optimizer(resumed, piece_bytes=100)
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    for a, b in zip(
        saved[1]["state"].values(), resumed.state_dict()["state"].values(), strict=True
    ):
        assert all(torch.equal(a[key], b[key]) for key in a)
    train(again, resumed, torch.optim.lr_scheduler.ConstantLR(resumed, 1.0), 3)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )


def test_hooks_see_one_step_with_all_weights() -> None:
    model = small()
    rule = torch.optim.SGD(grouped(model))
    seen: list[int] = []
    rule.register_step_pre_hook(lambda *_: seen.append(0))
    rule.register_step_post_hook(
        lambda one, *_: seen.append(sum(len(group["params"]) for group in one.param_groups))
    )
    offload_optimizer(rule, piece_bytes=1)
    offload_optimizer(rule)  # it is already
    model(torch.ones(1, 6)).sum().backward()
    rule.step()
    assert seen == [0, 6]


def test_an_optimiser_that_looks_at_all_weights_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="LBFGS"):
        offload_optimizer(torch.optim.LBFGS(small().parameters()))
