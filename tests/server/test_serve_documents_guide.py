"""The blocks of docs/server-documents.md, run against a real server."""

from __future__ import annotations

import subprocess
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
    if "scan.png" in text:
        pytest.importorskip("rapidocr")
        _write_scan(tmp_path / "scan.png")
    command = ["bash", "-e", "-o", "pipefail", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{server.log()[-2000:]}"
    if "scan.png" in text:
        assert "The rent is due on Monday." in done.stdout
        assert (tmp_path / "searchable.pdf").read_bytes().startswith(b"%PDF")
    elif "documents/search" in text:
        assert '"name": "cake.txt"' in done.stdout
        assert '"uploads": ["upload:' in done.stdout
    else:
        assert '"label": "recipe"' in done.stdout
        assert "120 EUR" in done.stdout
        assert '"kind": "person", "text": "John Brown"' in done.stdout
    for upload in server.client.get("/uploads").json()["files"]:
        server.client.delete(f"/uploads/{upload['id']}")


def _write_scan(file: Path) -> None:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("L", (900, 160), 255)
    font = ImageFont.load_default(40)
    ImageDraw.Draw(picture).text((40, 50), "The rent is due on Monday.", fill=0, font=font)
    picture.save(file)
