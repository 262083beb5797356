"""Small documents for tests of the server: made here, so that their words are known."""

from __future__ import annotations

import io
import random
import zipfile
from functools import cache
from pathlib import Path

from PIL import Image

from tests.documents.ocr.ocr_pages import page
from tests.server.conftest import Server

LETTER = (
    "Dear Mr Smith,\n\nThe landlord Ana Ruiz raised the rent of the flat in Madrid to 1,200 euros "
    "on 4 May 2026. Write to ana@example.org before the end of the month.\n\nJohn Brown\n"
)
RECIPE = (
    "Mix three eggs with flour and sugar until the dough is smooth. Bake the cake for forty minutes"
    " at 180 degrees. Let it cool before it is cut, and serve it with cream.\n"
)
SCAN = "The boiler was mended by the plumber on Tuesday and the bill is paid."


def scan(text: str = SCAN, form: str = "PNG", more: tuple[str, ...] = ()) -> bytes:
    """A picture of a page with a text; of several, in a form that has pages."""
    made = [page(one, dpi=100, name="", inches=6)[0] for one in (text, *more)]
    out = io.BytesIO()
    if form in ("PDF", "TIFF"):
        made[0].save(out, form, save_all=True, append_images=made[1:], resolution=100)
    else:
        made[0].save(out, form)
    return out.getvalue()


@cache
def hostile() -> dict[str, bytes]:
    """Files that would do harm, or are not what they are called."""
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", b"\0" * 40_000_000)
    huge = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(huge, "PNG")
    laughs = "".join(
        f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12)
    )  # a billion of them
    return {
        "cut.pdf": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n",
        "noise.pdf": b"%PDF-1.4\n" + random.randbytes(4000),
        "bomb.epub": bomb.getvalue(),
        "huge.png": huge.getvalue(),
        "laughs.fb2": f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "ha">{laughs}]>'
        "<FictionBook>&l11;</FictionBook>".encode(),
        "program.txt": b"\x7fELF" + random.randbytes(3000),
        "nothing.docx": b"PK\x05\x06" + b"\0" * 18,
        "../../up.txt": b"\0\0\0\0",
        "blank.png": scan(" "),
    }


def send(server: Server, **files: bytes | str) -> dict[str, str]:
    """Files sent to a server, `name_txt=...` each; `upload:ID` by name."""
    form = [
        ("files", (name.replace("_", "."), text if isinstance(text, bytes) else text.encode()))
        for name, text in files.items()
    ]
    answer = server.client.post("/uploads", files=form)
    assert answer.status_code == 201, answer.text
    return {one["name"]: f"upload:{one['id']}" for one in answer.json()["files"]}


def drop(server: Server, *words: str) -> None:
    for word in words:
        server.client.delete(f"/uploads/{word.removeprefix('upload:')}")


def traces(folder: Path, *words: str) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes().lower()
            found += [f"{path}: {w}" for w in words if w.lower().encode() in data]
    return found
