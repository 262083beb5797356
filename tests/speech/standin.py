"""Wheels made by hand: a stand-in library, and one that it clashes over in two versions."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def wheel(folder: Path, name: str, version: str, needs: str, source: str) -> Path:
    """A wheel of one module."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    files = {
        f"{name}/__init__.py": source,
        f"{info}/METADATA": metadata + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    rows = [f"{path},{_hash(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for inside, text in files.items():
            made.writestr(inside, text)
    return path


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def wheels(folder: Path) -> Path:
    """A package index in a folder: the engine, and the library in the two versions."""
    folder.mkdir(exist_ok=True)
    wheel(folder, "standin_tts", "1.0", "clashlib==1.0", "")
    for version in ("1.0", "2.0"):
        wheel(folder, "clashlib", version, "", f"__version__ = {version!r}\n")
    return folder
