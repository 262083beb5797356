"""What of an engine is on this machine, found without importing it: packages, files of weights.

Weights come inside Python packages, whose hashes are known, or lie in a folder as a model hub has
them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError, MissingPackageError, MissingWeightsError
from anyrig.speech.engine import EngineInfo


def find_folder(info: EngineInfo, module: str) -> Path:
    """The folder of a package, which is not imported."""
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise missing_error(info, module)
    return Path(next(iter(found.submodule_search_locations)))


def missing_error(info: EngineInfo, module: str) -> MissingPackageError:
    """The error for a package that an engine needs."""
    return MissingPackageError(
        f"the engine {info.name} needs the package {module}", hint=info.install
    )


def read_version(info: EngineInfo, distribution: str) -> str:
    """A package's version."""
    from anyrig.devices.probe import list_distributions

    found = list_distributions(sys.path).get(distribution)
    if found is None:
        raise missing_error(info, distribution)
    return found


def read_table(module: str, name: str) -> dict[str, int]:
    """A JSON file of an installed package: a number for each phoneme."""
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.submodule_search_locations
    path = Path(next(iter(found.submodule_search_locations))) / name
    read: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    return read


def check_sha256(path: Path, sha256: str) -> None:
    """Raise unless a file is the published one."""
    if not path.is_file():
        raise MissingWeightsError(f"{path} does not exist", hint="Install its package again.")
    if compute_sha256(path) != sha256:
        raise MissingWeightsError(
            f"{path} is not the published file: its SHA-256 differs",
            hint=f"Delete it and download it again; its SHA-256 must be {sha256}.",
        )


def compute_sha256(path: Path) -> str:
    """The SHA-256 of a file; computed again only when the file changes."""
    return compute_joined_sha256((path,))


def compute_joined_sha256(paths: tuple[Path, ...]) -> str:
    """The SHA-256 of files, concatenated."""
    states = [path.stat() for path in paths]
    return _hash(paths, tuple((state.st_size, state.st_mtime_ns) for state in states))


@lru_cache(maxsize=128)
def _hash(paths: tuple[Path, ...], _state: tuple[tuple[int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def combine_hashes(hashes: Iterable[str]) -> str:
    """One hash of several."""
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


# -- a folder of weights --------------------------------------------------------------------------


def require_files(info: EngineInfo, folder: Path | None, patterns: Sequence[str]) -> Path:
    """A folder that has a file of each pattern; MissingWeightsError names what it has not."""
    from anyrig.storage import weights

    missing = [name for name in patterns if folder is None or not any(folder.glob(name))]
    if folder is None or missing:
        raise weights.missing_weights_error(info.name, folder, info.weights, missing)
    return folder


def require_model(folder: Path, info: EngineInfo, embedding: str) -> None:
    """Check that a folder in the format of transformers has the model of an engine, whole.

    Args:
        embedding: the tensor whose sizes its configuration names.
    """
    from anyrig.storage import weights
    from anyrig.storage.files import read_json

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
