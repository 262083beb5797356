"""PP-OCRv6 out of the `rapidocr` package, on any device that ONNX Runtime drives.

The package carries the weights; the sessions are anyrig's own, so that the device is the one that
was placed and what really ran is known. What goes into the networks and what is made of their
answers is in `detect`, `lines` and `ctc`. The package's classifier that turns single lines is left
out, since it garbles some: a page is turned as a whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyrig.documents.ocr.engine import PageEngine, Sheet
from anyrig.documents.reading import INSTALL_OCR
from anyrig.errors import MissingPackageError

if TYPE_CHECKING:
    from anyrig.backends.onnx import OnnxHandle, OnnxModel
    from anyrig.documents.ocr.ctc import Alphabet
    from anyrig.documents.ocr.page import ReadPage
    from anyrig.placement import Placement

PACKAGE = "rapidocr==3.10.0"
INSTALL = INSTALL_OCR
DETECTOR = "PP-OCRv6_det_small.onnx"
RECOGNISER = "PP-OCRv6_rec_small.onnx"
HASHES = {
    DETECTOR: "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    RECOGNISER: "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
}
# Names within the recogniser, whose hash is checked: what its last layer is fed, and the layer.
_FEATURES, _WEIGHTS, _BIAS = "p2o.pd_op.transpose.8.0", "linear_8.w_0", "linear_8.b_0"
_LINES_ON_GPU = 16


def folder() -> Path:
    """Where the package keeps its weights; found without importing it."""
    from importlib.util import find_spec

    found = find_spec("rapidocr")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError("RapidOCR needs the package rapidocr", hint=INSTALL)
    return Path(next(iter(found.submodule_search_locations))) / "models"


class Rapid(PageEngine):
    """Any page in Latin script, Chinese or Japanese."""

    name = "rapidocr"
    version = "3.10.0+1"
    weights = f"{HASHES[DETECTOR][:16]}-{HASHES[RECOGNISER][:16]}"

    def __init__(self, placement: Placement) -> None:
        """Load both networks onto the device that was placed."""
        from anyrig.backends import open_device
        from anyrig.backends.onnx import OnnxHandle
        from anyrig.documents.ocr.reader import Reader

        models = folder()
        _check(models)
        handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(handle, OnnxHandle)
        self.handle = handle
        detector = handle.load(_without_subnormals((models / DETECTOR).read_bytes()))
        recogniser, alphabet = _recogniser(handle, models / RECOGNISER)
        self._reader = Reader(
            _network(detector), _network(recogniser), alphabet,
            together=1 if handle.on_host else _LINES_ON_GPU,
        )  # fmt: skip

    def read(self, sheet: Sheet) -> ReadPage:
        """What stands on a sheet."""
        assert self.handle is not None
        return self._reader.read(sheet, engine=self.name, device=self.handle.name)


def _check(models: Path) -> None:
    from anyrig.storage.weights import check_hashes

    check_hashes([(models / name, digest) for name, digest in HASHES.items()], PACKAGE)


def _without_subnormals(model: bytes) -> bytes:
    """The model with weights too small for a full number set to nothing.

    A CPU multiplies such numbers many times slower. Of one layer of the detector they were 63 %,
    and detection took 1.03 s of a page with them and 0.35 s without; its answer is the same.
    """
    import numpy as np

    from anyrig.backends.onnx_graph import read_weights

    changed = bytearray(model)
    least = np.finfo(np.float32).tiny
    for weight in read_weights(cast("bytes", changed)).values():  # views of the bytes, not copies
        if weight.dtype == np.float32:
            weight[np.abs(weight) < least] = 0
    return bytes(changed)


def _network(model: OnnxModel) -> Any:
    return lambda fed: model.run({"x": fed})[0]


def _recogniser(handle: OnnxHandle, path: Path) -> tuple[OnnxModel, Alphabet]:
    """The recogniser up to its last layer, and that layer."""
    import numpy as np

    from anyrig.backends.onnx_graph import read_weights, replace_outputs
    from anyrig.documents.ocr.ctc import Alphabet

    data = _without_subnormals(path.read_bytes())
    model = handle.load(replace_outputs(data, [_FEATURES]))
    told = model.session.get_modelmeta().custom_metadata_map["character"]
    characters = ("", *told.splitlines(), " ")
    layer = read_weights(data)
    return model, Alphabet(
        characters, np.array(layer[_WEIGHTS], np.float32), np.array(layer[_BIAS], np.float32)
    )
