"""With the network cut every default works, and nothing tries to leave."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

_LINK_UP = 'ip link set lo up && exec "$@"'


def _apart() -> list[str]:
    """What runs a command in a network of its own, with nobody else in it; empty if not allowed."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return []
    for flags in ("-n", "-rn"):
        order = ["unshare", flags, "sh", "-c", _LINK_UP, "sh"]
        if subprocess.run([*order, "true"], capture_output=True).returncode == 0:
            return order
    return []


def test_every_default_works_and_nothing_tries_to_leave(tmp_path: Path) -> None:
    home = tmp_path / "apart"
    apart = _apart()
    done = subprocess.run(
        [*apart, sys.executable, "-m", "tests.server.cut_off.walk", str(home)],
        capture_output=True, text=True, cwd=ROOT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    if apart:
        assert found["a way out"] is False
    assert found["wav"] > 10_000
    assert found["mp3"] > 1_000
    assert len(set(found["vectors"])) == 1
    assert found["plan"] > 3
    assert found["job"] == "done"
    assert found["page"] > 1_000
    assert found["health"] == 200
    attempts = home / "attempts.txt"
    assert not attempts.exists(), attempts.read_text()[:5000]


@pytest.mark.parametrize("address", ["192.0.2.1", "example.org", "2001:db8::1"])
def test_an_attempt_would_be_seen(tmp_path: Path, address: str) -> None:
    """The list is what the test above stands on."""
    code = (
        f"import socket\ntry: socket.create_connection(({address!r}, 80), 1)\nexcept OSError: pass"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True,
        env={"CUT_OFF_LIST": str(tmp_path / "list"), "PYTHONPATH": f"{ROOT}/tests/server/cut_off"},
    )  # fmt: skip
    assert address in (tmp_path / "list").read_text()
