"""The blocks of docs/server.md, run against a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages
from tests.server.conftest import Server

_HERE = "tests/server/test_serve_guide.py runs it against a server"
BLOCKS = [b for b in pages.blocks() if b.page == "docs/server.md" and b.not_run == _HERE]


@pytest.mark.system("curl", "curl")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.language}:{b.line}")
def test_block(block: pages.Block, server: Server, tmp_path: Path) -> None:
    text = block.text.replace("http://127.0.0.1:3000", server.url)
    assert server.url in text
    command = ["bash", "-e", "-o", "pipefail", "-c", text]
    if block.language == "python":
        command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{server.log()[-2000:]}"
    if block.language == "python":
        assert done.stdout == "True 2\n"
    assert all(one.stat().st_size for one in tmp_path.iterdir() if one.is_file())
