"""The blocks of docs/server-documents.md, run against a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages
from tests.server.conftest import Server

_HERE = "tests/server/test_serve_documents_guide.py runs it against a server"
PAGE = "docs/server-documents.md"
BLOCKS = [block for block in pages.blocks() if block.page == PAGE and block.not_run == _HERE]


@pytest.mark.system("curl", "curl")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.language}:{b.line}")
def test_block(block: pages.Block, server: Server, tmp_path: Path) -> None:
    text = block.text.replace("http://127.0.0.1:3000", server.url)
    command = ["bash", "-e", "-o", "pipefail", "-c", text]
    if block.language == "python":
        pytest.importorskip("rapidocr")
        command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{server.log()[-2000:]}"
    if block.language == "python":
        assert done.stdout == "The rent is due on Monday.\n%PDF\n"
    elif "documents/search" in text:
        assert '"name": "cake.txt"' in done.stdout
        assert '"uploads": ["upload:' in done.stdout
    else:
        assert '"label": "recipe"' in done.stdout
        assert "120 EUR" in done.stdout
        assert '"kind": "person", "text": "John Brown"' in done.stdout
    for upload in server.client.get("/uploads").json()["files"]:
        server.client.delete(f"/uploads/{upload['id']}")
