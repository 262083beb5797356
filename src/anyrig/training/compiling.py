"""torch.compile with a fall-back that says why.

    compiled = compile_model(model, "auto", "cuda", tell=print)
    for batch in batches:
        compiled.run(lambda: step(batch))

A model is compiled when it is first called, so that is where compiling fails: no C++ compiler, no
triton, code that cannot be traced. From then on the model runs as it is, and the same step is made
again from the same random states. A shortage of memory is no such failure and is passed on.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import nn

from anyrig.errors import AnyrigError
from anyrig.memory.oom import detect_device_loss, detect_oom
from anyrig.training.checkpoint import random

T = TypeVar("T")
Tell = Callable[[str], None]
How = bool | Literal["auto"]
_OLDEST = (7, 0)
"""The compute capability that triton's kernels begin at."""
_PARTS = ("torch/_dynamo/", "torch/_inductor/", "torch/_functorch/", "torch/fx/", "triton/")
_CLASSES = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "triton")
# What compiled code goes through when it runs, compiled long ago: no sign that compiling failed.
_RUNNING = ("eval_frame.py", "runtime_wrappers.py", "aot_autograd.py", "output_code.py", "utils.py")
_LIMIT_LOG = "torch._dynamo.convert_frame"
_LENGTH = 200


class Decision(NamedTuple):
    """Whether to compile, and why."""

    used: bool
    reason: str


def decide(
    how: How, device_type: str, *, triton: bool, capability: tuple[int, int] | None
) -> Decision:
    """Whether compiling is worth it on a device.

    Args:
        how: true forces, false forbids, `auto` weighs.
        device_type: cuda (ROCm too), xpu, mps, cpu, privateuseone.
        triton: whether the package is there.
        capability: NVIDIA's, None for others.
    """
    if how is False:
        return Decision(False, "not compiled, as set")
    if how is True:
        return Decision(True, "compiled, as set")
    if device_type not in ("cuda", "xpu"):
        return Decision(False, f"not compiled: {_DULL.get(device_type, _DULL['privateuseone'])}")
    if not triton:
        return Decision(False, f"not compiled: {device_type} needs the triton package for it")
    if capability is not None and capability < _OLDEST:
        have = ".".join(str(part) for part in capability)
        return Decision(
            False, f"not compiled: triton needs compute capability 7.0, this has {have}"
        )
    return Decision(True, f"compiled: {device_type} with triton")


_DULL = {
    "cpu": "on a CPU the compiler takes longer than most runs gain",
    "mps": "torch's compiler for Metal is not finished",
    "privateuseone": "torch's compiler does not know this device",
}


def compile_model(
    target: nn.Module | Callable[..., Any],
    how: How,
    device_type: str,
    *,
    mode: str | None = None,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    fullgraph: bool = False,
    tell: Tell | None = None,
) -> Compiled:
    """A model compiled in place, or a function to be called as `compiled.call`.

    Args:
        target: a model, or a function such as a loss.
        how: true forces, false forbids, `auto` where a GPU gains from it.
        device_type: where it runs.
        mode: of torch.compile, such as "reduce-overhead" for recorded kernels.
        dynamic: whether shapes vary; None finds out.
        backend: of torch.compile.
        fullgraph: fail where code cannot be compiled as one piece.
        tell: is given the reason of a fall-back.
    """
    decision = decide(
        how, device_type, triton=_has_triton(how), capability=_capability(how, device_type)
    )
    compiled = Compiled(target, decision, tell)
    if decision.used:
        compiled.begin(backend=backend, mode=mode, dynamic=dynamic, fullgraph=fullgraph)
    return compiled


def _has_triton(how: How) -> bool:
    return how == "auto" and find_spec("triton") is not None


def _capability(how: How, device_type: str) -> tuple[int, int] | None:
    if how != "auto" or device_type != "cuda" or torch.version.hip or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_capability()


class Compiled:
    """Something that is compiled, until that fails."""

    def __init__(
        self, target: nn.Module | Callable[..., Any], decision: Decision, tell: Tell | None
    ) -> None:
        self.used, self.reason = decision
        self._target, self._tell = target, tell
        self._quick: Callable[..., Any] | None = None
        self._listener: _LimitListener | None = None

    def begin(self, **options: Any) -> None:
        """Have it compiled when it is called next."""
        try:
            if isinstance(self._target, nn.Module):
                _compile_in_place(self._target, options)
            else:
                self._quick = torch.compile(self._target, **options)
        except Exception as error:  # noqa: BLE001  # a Python that torch does not know yet, and so on
            self._give_up(self.failure(error) or _line(error))
        else:
            self._listener = _LimitListener(self._say)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call what was given, compiled as long as that works."""
        function = self._quick or self._target
        return function(*args, **kwargs)

    def failure(self, error: BaseException) -> str | None:
        """Why compiling failed, in a line, when an error means that; None for every other error."""
        if not self.used or not isinstance(error, Exception) or isinstance(error, AnyrigError):
            return None
        if detect_oom(error) is not None or detect_device_loss(error) is not None:
            return None
        return _line(error) if any(_compiling(link) for link in _chain(error)) else None

    def gave_up(self, error: BaseException) -> bool:
        """Whether an error came from compiling. If so, all goes on without, from the next call on.

        The caller makes its step again, after gradients are dropped and random states put back.
        """
        reason = self.failure(error)
        if reason is not None:
            self._give_up(reason)
        return reason is not None

    def run(
        self,
        step: Callable[[], T],
        *,
        reset: Callable[[], object] | None = None,
        device: torch.device | str = "cpu",
    ) -> T:
        """Make a step; where compiling fails in it, make it again without.

        Args:
            step: forward and backward of a batch, without the optimiser's step.
            reset: drops the gradients that the failed try may have left.
            device: whose random state is put back too.
        """
        if not self.used:
            return step()
        before = random.capture(device)
        try:
            return step()
        except Exception as error:
            if not self.gave_up(error):
                raise
        # Outside of the handler: the error holds the tensors of the failed try.
        random.restore({0: before}, 0, device)
        if reset is not None:
            reset()
        return step()

    def undo(self) -> None:
        """Run as it was before, for good."""
        self.used, self._quick = False, None
        if isinstance(self._target, nn.Module):
            self._target._compiled_call_impl = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def __enter__(self) -> Compiled:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def _give_up(self, why: str) -> None:
        self.undo()
        self.reason = f"not compiled: {why}"
        self._say(self.reason)

    def _say(self, text: str) -> None:
        if self._tell is not None:
            self._tell(text)


def _compile_in_place(model: nn.Module, options: dict[str, Any]) -> None:
    """Compile a model's call. Its weights' names and its class stay as they are.

    torch's compiler passes over frames of torch.nn itself: a model that is an nn.Sequential would
    stay as it is without a word, so a function of ours stands around it.
    """
    if not type(model).__module__.startswith("torch.nn"):
        model.compile(**options)
        return
    plain: Any = model._call_impl

    def called(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    model._compiled_call_impl = torch.compile(called, **options)


class _LimitListener(logging.Handler):
    """Hears torch say that it compiles something no more because its shapes keep changing."""

    def __init__(self, say: Tell) -> None:
        super().__init__(logging.WARNING)
        self._say, self._said = say, False
        logging.getLogger(_LIMIT_LOG).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if "recompile_limit" in record.getMessage() and not self._said:
            self._said = True
            self._say(
                "a part of the model runs as it is: it was compiled too often, as shapes or values "
                "keep changing; items of equal length help"
            )

    def close(self) -> None:
        logging.getLogger(_LIMIT_LOG).removeHandler(self)
        super().close()


# -- recognising -----------------------------------------------------------------------------------


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = getattr(link, "inner_exception", None) or link.__cause__ or link.__context__


def _compiling(error: BaseException) -> bool:
    """Whether an error is of the compiler's own, or came up while it was at work."""
    if type(error).__module__.startswith(_CLASSES):
        return True
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename.replace("\\", "/")
        if any(part in path for part in _PARTS) and not path.endswith(_RUNNING):
            return True
        trace = trace.tb_next
    return False


_HINTS = (
    (("C++ compiler", "CppCompile", "g++"), "a C++ compiler is needed (g++ or clang++)"),
    (("C compiler",), "a C compiler is needed (gcc or clang)"),
    (("Python.h",), "Python's headers are needed (python3-dev)"),
    (("TritonMissing", "No module named 'triton'", "working triton"), "triton is not installed"),
    (("RecompileLimit", "recompile_limit"), "it was compiled too often, as shapes keep changing"),
)


def _line(error: BaseException) -> str:
    """A compiler's error in a line: the innermost cause, or what is missing where that is known."""
    links = list(_chain(error))
    whole = "\n".join(f"{type(link).__name__}: {link}" for link in links)
    for words, meaning in _HINTS:
        if any(word in whole for word in words):
            return meaning
    inner = links[-1]
    with contextlib.suppress(Exception):
        lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
        if lines:
            return f"{type(inner).__name__}: {lines[0]}"[:_LENGTH]
    return type(inner).__name__
