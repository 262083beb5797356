"""OCR beside its engines as they come: wrong characters and CPU seconds, page by page.

Pages of 1,500 characters in a serif font, in three languages and four conditions: clean and noisy
at 200 dpi, clean at 100 dpi, and upside down. They are read as `anyrig ocr` reads them on a CPU
when nobody names the language. The peers are `rapidocr` at its defaults, on one thread, and for the
languages whose data are installed Tesseract on the same image; Spanish and French come by
`anyrig ocr --get es` and `fr`. Tesseract itself does not turn pages, so it is no peer upside down.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from anyrig import Rig
from anyrig.devices.discovery import discover
from anyrig.documents.ocr import tesseract
from anyrig.documents.ocr.engine import PagePicture
from anyrig.placement import Placement
from benchmarks.harness import Row
from benchmarks.processes import cpu_seconds
from tests.documents.ocr.ocr_pages import SERIF, TEXTS, error, noisy, page, png

NUM_CHARACTERS = 1500
MAX_WRONG = 1.3  # per cent of the characters
Peer = Callable[[Image.Image], str]


def run(hardware: str) -> list[Row]:
    device = discover().cpu_device
    backend = next(backend for backend in device.backends if backend.library == "onnx")
    data = Rig().folders.tessdata
    plain = _open_rapidocr()
    rows: list[Row] = []
    for language in TEXTS:
        programs = tesseract.find_programs(os.environ, data)
        program = next((one for one in programs if one.reads(language)), programs[0])
        ours = tesseract.Tesseract(
            Placement(device, backend, threads=1), program=program, use_rapid=True
        )
        has_data = program.reads(language)
        for condition, image, text in _pages(language):
            peers: list[tuple[str, Peer]] = [("rapidocr, defaults", partial(_rapidocr, plain))]
            if has_data and condition != "upside down":
                peers.append(("tesseract", partial(_tesseract, program, language)))
            rows += _compare(f"{language}, {condition}", ours, peers, image, text)
    return rows


def _pages(language: str) -> list[tuple[str, Image.Image, str]]:
    large, text = page(TEXTS[language], dpi=200, name=SERIF, length=NUM_CHARACTERS)
    small, coarse = page(TEXTS[language], dpi=100, name=SERIF, length=NUM_CHARACTERS)
    return [
        ("clean", large, text), ("noisy", noisy(large), text), ("100 dpi", small, coarse),
        ("upside down", large.rotate(180), text),
    ]  # fmt: skip


def _compare(
    what: str,
    ours: tesseract.Tesseract,
    peers: list[tuple[str, Peer]],
    image: Image.Image,
    text: str,
) -> list[Row]:
    (found,) = ours.run([PagePicture(png(image))])
    wrong = 100 * error(text, found.text)
    print(f"{what}: {wrong:.3f} %, {found.cpu_s:.1f} CPU-s", file=sys.stderr, flush=True)
    rows: list[Row] = []
    for name, peer in peers:
        before = cpu_seconds()
        peer_text = peer(image)
        spent = cpu_seconds() - before
        theirs = 100 * error(text, peer_text)
        print(f"  {name}: {theirs:.3f} %, {spent:.1f} CPU-s", file=sys.stderr, flush=True)
        rows.append(Row(f"{what}: characters wrong", wrong, "%", theirs, name, high=MAX_WRONG))
        rows.append(Row(f"{what}: a page", found.cpu_s, "CPU-s", spent, name))
    return rows


def _open_rapidocr() -> Any:
    from rapidocr import RapidOCR

    one = {"EngineConfig.onnxruntime.intra_op_num_threads": 1, "Global.log_level": "error"}
    return RapidOCR(params=one)


def _rapidocr(engine: Any, image: Image.Image) -> str:
    found = engine(np.asarray(image.convert("RGB"))[:, :, ::-1])
    return "\n".join(found.txts or ())


def _tesseract(program: tesseract.TesseractProgram, language: str, image: Image.Image) -> str:
    out = io.BytesIO()
    image.save(out, "PNG")
    code = tesseract.CODES[language]
    done = subprocess.run(
        [program.binary, "stdin", "stdout", "-l", code], input=out.getvalue(), check=True,
        capture_output=True, env={**os.environ, **program.environment(code)},
    )  # fmt: skip
    return done.stdout.decode()
