"""The ONNX graphs of VibeVoice-Realtime: where they are, and how they are made once.

They lie in the folder `onnx` beside the weights, under a name that says which weights they are of.
`onnx_export.py` makes them in a process of its own, since only that needs torch and as much memory
as the model in single precision.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from anyrig.errors import MissingPackageError, StorageError
from anyrig.install import format_install
from anyrig.storage import weights
from anyrig.storage.files import lock_file, make_folder

WeightFormat = Literal["fp32", "fp16", "int8"]
FORMATS: tuple[WeightFormat, ...] = ("int8", "fp16", "fp32")
GRAPHS = ("text", "speech", "condition", "head", "frame")
"""The text model, the speech model with its end of speech, the diffusion head (what depends on the
hidden state, then a step), and the decoder of a frame with the connector."""
TIMES_FILE = "times.npy"
"""The embedding of each time of the diffusion."""
_EXPORT_MODULES = ("torch", "onnx", "onnxscript")
_FORM = "1"
"""Of the graphs: another one with other inputs or outputs."""
_MAX_EXPORT_S = 3600.0

OnProgress = Callable[[str], None]


def find_graphs(folder: Path, kind: WeightFormat) -> Path:
    """The folder of the graphs of some weights, whether it exists or not."""
    files = [*folder.glob("*.safetensors"), folder / "config.json"]
    return folder / "onnx" / f"{kind}-{_FORM}-{weights.hash_files(files)[:16]}"


def has_graphs(graphs: Path) -> bool:
    return all((graphs / name).is_file() for name in list_files())


def list_files() -> tuple[str, ...]:
    """Files of a complete folder; a graph's weights are written before it."""
    return (*(f"{name}.onnx" for name in GRAPHS), TIMES_FILE)


def require_graphs(
    folder: Path, kind: WeightFormat, on_progress: OnProgress = lambda _message: None
) -> Path:
    """The folder of the graphs; made from the weights if it is not there."""
    graphs = find_graphs(folder, kind)
    if has_graphs(graphs):
        return graphs
    for module in _EXPORT_MODULES:
        if importlib.util.find_spec(module) is None:
            raise MissingPackageError(
                f"converting the weights of VibeVoice-Realtime to ONNX needs the package {module}",
                hint=f"{format_install('anyrig[torch]')} Only this once: the converted weights run "
                "without it.",
            )
    try:
        make_folder(graphs)
    except OSError as error:
        raise StorageError(
            f"{graphs} cannot be created: {error.strerror}",
            hint="Copy the weights to a folder that you can write to.",
        ) from error
    with lock_file(graphs / ".lock", _MAX_EXPORT_S):  # workers may start together
        if not has_graphs(graphs):
            on_progress(f"Converting the weights to ONNX ({kind}), once, to {graphs}")
            _run_export(folder, graphs, kind, on_progress)
    return graphs


def _run_export(folder: Path, graphs: Path, kind: WeightFormat, on_progress: OnProgress) -> None:
    from anyrig.backends.process import StderrTail, describe_exit, start_module

    child = start_module(
        "anyrig.speech.models.vibevoice.onnx_export", os.environ, str(folder), str(graphs), kind
    )
    errors = StderrTail(child.stderr)
    try:
        with child.stdout:
            for line in child.stdout:
                on_progress(line.decode("utf-8", "replace").rstrip())
        code = child.wait()
    except BaseException:
        child.kill_group()
        child.kill()
        raise
    finally:
        child.stdin.close()
    if code or not has_graphs(graphs):
        raise StorageError(
            "converting the weights of VibeVoice-Realtime to ONNX failed: the process "
            + describe_exit(code, errors.lines()),
            hint="Run it again: what was finished is kept. It needs about 6 GB of memory, and of "
            "disk space as much as the weights in this format.",
        )
