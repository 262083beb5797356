"""With the network cut every default works, and nothing tries to leave."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyrig.server.page.main import PAGES
from tests.conftest import ROOT
from tests.server.browsing import NEEDS
from tests.server.cut_off.look import ELSEWHERE
from tests.server.documents_files import RECIPE, SCAN

_LINK_UP = 'ip link set lo up && exec "$@"'
_WHY = "all of it worked, but the network could not be cut: needs `unshare` and `ip`, and the right"


def _apart() -> list[str]:
    """What runs a command in a network of its own, with nobody else in it; empty if not allowed."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return []
    for flags in ("-n", "-rn"):
        order = ["unshare", flags, "sh", "-c", _LINK_UP, "sh"]
        if subprocess.run([*order, "true"], capture_output=True).returncode == 0:
            return order
    return []


def _told(what: str, home: Path, apart: list[str]) -> dict[str, Any]:
    """What a walk says that had no network; nothing of it tried to leave."""
    done = subprocess.run(
        [*apart, sys.executable, "-m", f"tests.server.cut_off.{what}", str(home)],
        capture_output=True, text=True, cwd=ROOT, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    attempts = home / "attempts.txt"
    assert not attempts.exists(), attempts.read_text()[:5000]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert not (apart and found["a way out"])
    return found


def test_every_default_works_and_nothing_tries_to_leave(tmp_path: Path) -> None:
    apart = _apart()
    found = _told("walk", tmp_path / "apart", apart)
    assert found["wav"] > 10_000
    assert found["mp3"] > 1_000
    assert found["stream"] > 48_000
    assert {"train", "morning"} <= set(found["heard"].lower().strip(" .").split())
    assert len(set(found["vectors"])) == 1
    assert found["embed"] == found["vectors"][0]
    assert found["summary"] in RECIPE
    assert found["class"] == "recipe"
    assert {"Maria Jones", "Paris", "4 May 2026"} <= set(found["entities"])
    assert found["analysed"] == 2
    assert found["report"] > 1_000
    assert found["similar"] == "recipe.txt"
    assert " ".join(found["ocr"].split()) == SCAN
    assert found["search"] == "letter.txt"
    assert found["plan"] > 3
    jobs = {name: state for name, state in found.items() if name.endswith(" job")}
    assert jobs == dict.fromkeys(
        ("transcribe job", "batch job", "index job", "book job", "bench job", "train job"), "done"
    )
    assert set(found["lists"].values()) == {200}
    assert len(found["lists"]) > 12
    assert len(found["models"]) > 3
    assert list(found["pages"]) == [page.path for page in PAGES]
    assert min(found["pages"].values()) > 1_000
    if not apart:
        pytest.skip(_WHY)


class TestInABrowser:
    pytestmark = NEEDS

    def test_every_page_comes_whole_and_asks_nobody_else(self, tmp_path: Path) -> None:
        apart = _apart()
        found = _told("look", tmp_path / "apart", apart)
        assert list(found["titles"]) == [page.path for page in PAGES]
        assert all(found["titles"].values())
        assert found["asked"] > 50
        assert found["outside"] == []
        assert found["complaints"] == []
        assert found["would be seen"] == [ELSEWHERE]
        if not apart:
            pytest.skip(_WHY)
