"""Weights in a folder, as a model hub has them: which files must be there, and of which model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError
from anyrig.speech.engine import EngineInfo
from anyrig.storage import weights
from anyrig.storage.files import read_json


def require_files(info: EngineInfo, folder: Path | None, patterns: Sequence[str]) -> Path:
    """A folder that has a file of each pattern; MissingWeightsError names what it has not."""
    missing = [name for name in patterns if folder is None or not any(folder.glob(name))]
    if folder is None or missing:
        raise weights.missing_weights_error(info.name, folder, info.weights, missing)
    return folder


def require_model(folder: Path, info: EngineInfo, embedding: str) -> None:
    """Check that a folder in the format of transformers has the model of an engine, whole.

    Args:
        embedding: the tensor whose sizes its configuration names.
    """
    config = read_json(folder / "config.json")
    kind = config.get("model_type", "no model")
    if kind != info.name:
        raise InvalidInputError(
            f"{folder} contains {kind}, not {info.name}", hint=f"Use {info.repository}."
        )
    text = config.get("text_config", config)
    sizes: list[Any] = [text.get("vocab_size"), text.get("hidden_size")]
    shapes = {embedding: sizes} if all(sizes) else {}
    weights.check_tensors(folder, sorted(folder.glob("*.safetensors")), shapes, info.repository)
