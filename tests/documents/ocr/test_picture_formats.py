"""OCR opens pictures that Pillow decodes itself, and none that run another program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anyrig.documents.ocr.picture import grey
from anyrig.errors import InvalidInputError

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 20 20
%%EndComments
showpage
%%EOF
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Ghostscript is a script")
def test_ghostscript_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/run'\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(InvalidInputError, match="the picture cannot be opened"):
        grey(EPS)
    assert not (tmp_path / "run").exists()
