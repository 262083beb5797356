"""PP-OCRv6 out of the `rapidocr` package, on any device that ONNX Runtime drives.

The package finds and reads the lines; the sessions are anyrig's own, so that the device is the one
that was chosen and what really ran is known. The package's classifier that turns single lines is
left out, since it garbles some: a page is turned as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from anyrig.documents.ocr import order
from anyrig.documents.ocr.engine import PageEngine, PageReading
from anyrig.documents.ocr.page import Box, OcrLine, OcrWord, box, join_words
from anyrig.documents.ocr.straighten import find_bands
from anyrig.documents.reading import INSTALL_OCR
from anyrig.errors import MissingPackageError

if TYPE_CHECKING:
    from anyrig.backends.onnx import OnnxHandle
    from anyrig.documents.ocr.picture import Grey
    from anyrig.placement import Placement

PACKAGE = "rapidocr==3.10.0"
INSTALL = INSTALL_OCR
DETECTOR = "PP-OCRv6_det_small.onnx"
RECOGNISER = "PP-OCRv6_rec_small.onnx"
HASHES = {
    DETECTOR: "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    RECOGNISER: "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
}
_LINES_ON_GPU = 16
_DETECTED_X_HEIGHT = 9.0
"""Lines are found in a smaller picture: what that costs is its number of pixels."""
_MAX_DETECTED_PIXELS = 6_000_000
"""Of that picture: each takes the detector 125 bytes."""
_MIN_SIDE = 320
_ANY_SIDE = 1 << 20


class Rapid(PageEngine):
    """Any page in Latin script, Chinese or Japanese."""

    name = "rapidocr"
    version = "3.10.0+2"
    weights = f"{HASHES[DETECTOR][:16]}-{HASHES[RECOGNISER][:16]}"
    sure = 0.95

    def __init__(self, placement: Placement) -> None:
        from anyrig.backends import open_device
        from anyrig.backends.onnx import OnnxHandle

        models = find_models()
        _check(models)
        handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(handle, OnnxHandle)
        self.handle = handle
        self.device = handle.name
        self._ocr = _open_rapidocr(models, handle)

    def recognize(self, page: Grey, language: str, x_height: float) -> PageReading:
        """The lines of a page. A line alone on a large white page is not found by the detector at
        any size: so the written parts are looked at one by one.
        """
        lines: list[list[OcrWord]] = []
        for rows, columns in find_bands(page, x_height):
            words = self._find_words(page[rows, columns], x_height)
            lines += [_shift(line, columns.start, rows.start) for line in words]
        return PageReading(_arrange(lines))

    def _find_words(self, page: Grey, x_height: float) -> list[list[OcrWord]]:
        import cv2

        scale = min(1.0, _DETECTED_X_HEIGHT / x_height) if x_height else 1.0
        scale = max(scale, min(1.0, _MIN_SIDE / min(page.shape)))
        scale = min(scale, (_MAX_DETECTED_PIXELS / page.size) ** 0.5)
        self._ocr.text_det.limit_side_len = max(32, round(max(page.shape) * scale))
        found = self._ocr(cv2.cvtColor(np.ascontiguousarray(page), cv2.COLOR_GRAY2BGR))
        if found.txts is None:
            return []
        rows = zip(found.boxes.tolist(), found.txts, found.scores, found.word_results, strict=True)
        return [_words(*row) for row in rows]


def find_models() -> Path:
    """Where the package keeps its weights; found without importing it."""
    from importlib.util import find_spec

    found = find_spec("rapidocr")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError("RapidOCR needs the package rapidocr", hint=INSTALL)
    return Path(next(iter(found.submodule_search_locations))) / "models"


def _check(models: Path) -> None:
    from anyrig.storage.weights import check_hashes

    check_hashes([(models / name, digest) for name, digest in HASHES.items()], PACKAGE)


def _open_rapidocr(models: Path, handle: OnnxHandle) -> Any:
    from rapidocr import RapidOCR

    ocr: Any = RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "Global.return_word_box": True,
            "Global.max_side_len": _ANY_SIDE,  # lines are read at their full size
            "Det.limit_type": "max",
            "Det.model_path": str(models / DETECTOR),
            "Rec.model_path": str(models / RECOGNISER),
            "Rec.rec_batch_num": 1 if handle.on_host else _LINES_ON_GPU,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        }
    )
    for part, name in ((ocr._load_det_model(), DETECTOR), (ocr._load_rec_model(), RECOGNISER)):
        model = handle.load(_drop_subnormals((models / name).read_bytes()))
        part.session = lambda fed, model=model: model.run({"x": fed})[0]
    return ocr


def _drop_subnormals(model: bytes) -> bytes:
    """The model with weights too small for a full number set to nothing.

    A CPU multiplies such numbers many times slower. Of one layer of the detector they were 63 %,
    and detection took 1.03 s of a page with them and 0.35 s without; its answer is the same.
    """
    from anyrig.backends.onnx_graph import read_weights

    changed = bytearray(model)
    least = np.finfo(np.float32).tiny
    for weight in read_weights(cast("bytes", changed)).values():  # views of the bytes, not copies
        if weight.dtype == np.float32:
            weight[np.abs(weight) < least] = 0
    return bytes(changed)


def _words(
    corners: Sequence[Sequence[float]], text: str, score: float, parts: Sequence[Any]
) -> list[OcrWord]:
    """The words of a line; the package's parts may be single characters of a word."""
    words: list[OcrWord] = []
    left = list(parts or ())
    for word in text.split():
        mine: list[Any] = []
        while left and len("".join(part[0] for part in mine)) < len(word):
            mine.append(left.pop(0))
        if "".join(part[0] for part in mine) != word:
            return [OcrWord(text, box(corners), score)]
        sure = sum(part[1] * len(part[0]) for part in mine) / len(word)
        first, last = mine[0][2], mine[-1][2]
        words.append(OcrWord(word, box((first[0], last[1], last[2], first[3])), float(sure)))
    return words


def _shift(words: Sequence[OcrWord], left: float, top: float) -> list[OcrWord]:
    return [replace(word, box=box([(x + left, y + top) for x, y in word.box])) for word in words]


def _arrange(lines: Sequence[Sequence[OcrWord]]) -> tuple[OcrLine, ...]:
    """Lines in reading order; what stands beside each other in a row is one line."""
    places = [_place(words, number) for number, words in enumerate(lines) if words]
    return tuple(
        join_words([word for place in row for word in lines[place.number]], block)
        for block, rows in enumerate(order.order_blocks(places))
        for row in rows
    )


def _place(words: Sequence[OcrWord], number: int) -> order.PlacedBox:
    corners: list[Box] = [words[0].box, words[-1].box]
    across = [point[0] for one in corners for point in one]
    down = [point[1] for one in corners for point in one]
    return order.PlacedBox(min(across), min(down), max(across), max(down), number)
