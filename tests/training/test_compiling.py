"""Compiling, and going on without when that fails: the same step, the same numbers, the reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.precision.policy import PrecisionPolicy
from anyrig.training.compile import Compiled, compile_model, decide_compile
from anyrig.training.step import TrainStep

X = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """With dropout: a step that is repeated must draw the same again."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found.sin()


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = model(batch).square().mean()
    return found


def step_of(model: nn.Module, compiled: Compiled | None = None, seed: int = 3) -> torch.Tensor:
    """The loss of one step of training; the weights are changed."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = TrainStep(
        model, optimizer, loss, PrecisionPolicy("fp32", "cpu"), "cpu", micro_batch=8,
        compiled=compiled,
    )  # fmt: skip
    torch.manual_seed(seed)
    return step(X).loss


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def check_is_as_plain(model: nn.Module, found: torch.Tensor) -> None:
    plain = Net()
    assert torch.equal(found, step_of(plain))
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_is_worth_compiling() -> None:
    def auto(kind: str, triton: bool = True, capability: tuple[int, int] | None = (9, 0)) -> Any:
        return decide_compile("auto", kind, triton=triton, capability=capability)

    assert auto("cuda").used
    assert auto("xpu", capability=None).used
    assert auto("cuda", capability=None).used  # ROCm
    for found, word in (
        (auto("cuda", triton=False), "triton"),
        (auto("cuda", capability=(6, 1)), "6.1"),
        (auto("cpu"), "CPU"),
        (auto("mps"), "Metal"),
        (auto("privateuseone"), "does not know this device"),
    ):
        assert not found.used
        assert word in found.reason
    assert decide_compile(True, "cpu", triton=False, capability=None).used
    assert not decide_compile(False, "cuda", triton=True, capability=(9, 0)).used


def test_nothing_of_the_compiler_is_loaded_where_it_is_not_used() -> None:
    code = (
        "import sys, torch\n"
        "from torch import nn\n"
        "from anyrig.training.compile import compile_model\n"
        "from anyrig.training import data, optim, step\n"
        "model = nn.Linear(2, 2)\n"
        "compiled = compile_model(model, 'auto', 'cpu')\n"
        "model(torch.zeros(1, 2))\n"
        "print(compiled.used, 'torch._dynamo' in sys.modules, 'triton' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]


@pytest.mark.parametrize("make", [Net, lambda: nn.Sequential(nn.Linear(4, 4)), nn.Identity])
def test_models_are_really_compiled_torchs_own_too(make: Callable[[], nn.Module]) -> None:
    seen = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append(graph)
        return graph.forward

    model = make()
    names = list(model.state_dict())
    with compile_model(model, True, "cpu", backend=backend) as compiled:
        model(X)
        assert compiled.used
    assert list(model.state_dict()) == names
    assert len(seen) == (0 if isinstance(model, nn.Identity) else 1)
    before = len(seen)
    model(torch.zeros(3, 4))
    assert len(seen) == before


def test_a_size_of_batch_has_code_of_its_own_and_many_sizes_share_one() -> None:
    symbols: list[bool] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        symbols.append(any(isinstance(one, torch.SymInt) for one in inputs))
        return graph.forward

    model = Net()
    with compile_model(model, True, "cpu", backend=backend):
        for size in (8, 3, 8, 3, 8):
            model(torch.zeros(size, 4))
        assert symbols == [False, False]
        for size in range(9, 30):
            model(torch.zeros(size, 4))
    assert symbols[-1]
    assert len(symbols) <= 5


def broken(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    raise RuntimeError("the made-up backend is broken\nand this is a second line")


def test_a_backend_that_fails_is_left_and_the_step_is_the_same() -> None:
    told: list[str] = []
    model = Net()
    compiled = compile_model(model, True, "cpu", backend=broken, on_message=told.append)
    check_is_as_plain(model, step_of(model, compiled))
    assert not compiled.used
    assert told == [compiled.reason]
    assert told == ["not compiled: RuntimeError: the made-up backend is broken"]
    assert model._compiled_call_impl is None


def test_a_failure_in_the_backward_pass_too() -> None:
    from torch._dynamo.backends.common import aot_autograd

    def forward(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return graph.forward

    model = Net()
    model.layers.register_forward_hook(_part_of_the_gradient)
    backend = aot_autograd(fw_compiler=forward, bw_compiler=broken)
    compiled = compile_model(model, True, "cpu", backend=backend)
    check_is_as_plain(model, step_of(model, compiled))
    assert "broken" in compiled.reason


def _part_of_the_gradient(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
    """A hook that leaves something behind, as a first micro batch would."""
    weight = next(module.parameters())
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)


@pytest.mark.parametrize("when", ["compiling", "running"])
def test_memory_that_runs_out_does_not_end_compiling(when: str) -> None:
    shortages = [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")]

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if shortages:
                raise shortages.pop()
            return graph.forward(*args)

        if when == "compiling" and shortages:
            run()
        return run

    model = Net()
    compiled = compile_model(model, True, "cpu", backend=backend)
    step_of(model, compiled)
    assert not shortages
    assert compiled.used


def test_errors_of_the_model_itself_come_as_they_are() -> None:
    class Picky(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] != 3:
                raise KeyError("three rows, please")
            return x

    model = Picky()
    with pytest.raises(KeyError, match="three rows"):
        step_of(model, compile_model(model, True, "cpu", backend="eager"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch imports its own old parts
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_inductor_gives_the_same_gradients_on_the_cpu() -> None:
    model, plain = Net().eval(), Net().eval()
    compiled = compile_model(model, True, "cpu")
    torch.testing.assert_close(step_of(model, compiled), step_of(plain))
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert compiled.used


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch imports its own old parts
def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", ("/no/such/compiler",))
    model = Net()
    compiled = compile_model(model, True, "cpu")
    check_is_as_plain(model, step_of(model, compiled))
    assert "C++ compiler" in compiled.reason
