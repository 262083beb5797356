from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyrig.speech.hosting import environments
from tests.speech.hosting import standin


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of the stand-in engine and of the library it clashes over."""
    return standin.wheels(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="session")
def home(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of environments with the stand-in's, made once."""
    home = tmp_path_factory.mktemp("environments")
    (home / "standin").mkdir()
    (home / "standin" / "half-made").touch()
    environments.install(
        "standin",
        home,
        yes=lambda notice: True,
        tell=lambda line: None,
        environment=os.environ,
        recipe=standin.RECIPE,
        pip=("--no-index", "--find-links", str(index)),
    )
    return home
