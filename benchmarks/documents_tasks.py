"""Four things people do with documents, on the CPU and on the GPU of one machine.

Embeddings of 100 documents, classification of 32 by label names, OCR of 20 pages, and the analysis
of a folder: warm, wall seconds, the median of some rounds, with the model that needs no hub. The
peer of embeddings and classification is sentence-transformers with the same weights on the same
device; of OCR, RapidOCR as it comes. What a machine cannot do is said and has no row.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discover import discover
from anyrig.documents.embed import Embedder
from anyrig.documents.model import Model, in_folder
from anyrig.documents.packaged import PACKAGED
from anyrig.placement import PlacementOptions, plan_placement
from benchmarks.harness import ROOT, Row

ROUNDS = 5


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model_folder = _model_folder(folder)
        rows: list[Row] = []
        for where in _places():
            rows += _with_vectors(where, model_folder, folder)
        return rows + _pages()


def _places() -> list[str]:
    machine = discover(os.environ)
    return ["cpu", *(["gpu"] if any(gpu.usable for gpu in machine.gpus) else [])]


def _model_folder(folder: Path) -> Path:
    """The default model as sentence-transformers keeps it; its size without its package."""
    from benchmarks import embed, embed_cpu

    if not PACKAGED["minilm"].lack():
        embed_cpu._folder(folder / "minilm")
        return folder / "minilm"
    print("random weights of the default model's size: its package is not here", flush=True)
    (folder / "random").mkdir()
    embed._model(folder / "random", "MiniLM")
    (folder / "random" / "their" / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 256}'
    )
    return folder / "random" / "their"


@contextmanager
def _vectors(where: str, model: Model) -> Iterator[Embedder]:
    machine = discover(os.environ)
    choice = choose_device(machine, (DeviceRequest("cpu" if where == "cpu" else "auto", "flag"),))
    need = model.need()
    wanted = PlacementOptions(precision="fp32" if where == "cpu" else "auto")
    placed = plan_placement(machine, choice, need, wanted, environment=os.environ)
    placed = replace(placed, placements=placed.placements[:1])
    with Embedder(model, placed=placed, environment=os.environ) as made:
        made.wait_ready()
        first = placed.placements[0]
        print(f"{where}: {first.title}", flush=True)
        yield made


def _with_vectors(where: str, folder: Path, scratch: Path) -> list[Row]:
    texts = _documents(100)
    model = in_folder(folder, name="minilm")
    peer = _theirs(where, folder)
    with _vectors(where, model) as vectors:
        ours = _timed(lambda: vectors.matrix(texts))
        theirs = _timed(lambda: peer(texts))
        rows = [_row(f"{where}: embeddings of 100 documents", ours, theirs,
                     "sentence-transformers encode()")]  # fmt: skip
        rows.append(_classified(where, vectors, peer, texts[:32]))
        rows.append(_analysed(where, vectors, scratch / f"folder-{where}"))
    return rows


def _row(what: str, ours: list[float], theirs: list[float] | None, name: str) -> Row:
    spread = f"{min(ours):.3g}-{max(ours):.3g} of {len(ours)}"
    peer = statistics.median(theirs) if theirs else None
    return Row(what, statistics.median(ours), "s", peer, name if theirs else "", spread=spread)


def _timed(work: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    work()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def _documents(count: int) -> list[str]:
    """Stretches of a novel of 40 to 400 words."""
    words = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8").split()
    dice = random.Random(11)
    found = []
    for _ in range(count):
        size = dice.randint(40, 400)
        start = dice.randrange(len(words) - size)
        found.append(" ".join(words[start : start + size]))
    return found


def _theirs(where: str, folder: Path) -> Callable[[list[str]], Any]:
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(
        str(folder), device="cpu" if where == "cpu" else "cuda", model_kwargs={"dtype": "float32"}
    )
    return lambda texts: model.encode(texts, show_progress_bar=False)


LABELS = "a trial, a meal, a journey, a dream, a quarrel, a lesson"


def _classified(
    where: str, vectors: Embedder, peer: Callable[[list[str]], Any], texts: list[str]
) -> Row:
    from anyrig.documents.classify.labels import build_labels, split_labels
    from anyrig.documents.classify.pipeline import classify_sources as classify
    from anyrig.documents.classify.zero import ByName
    from anyrig.documents.reading import TextSource, read_all

    chooser = ByName(build_labels(split_labels(LABELS)), vectors)
    sources = [TextSource(str(number), text=text) for number, text in enumerate(texts)]
    assert len(list(classify(sources, chooser, vectors, read=read_all))) == len(texts)
    ours = _timed(lambda: list(classify(sources, chooser, vectors, read=read_all)))
    marks = peer(LABELS.split(", "))
    theirs = _timed(lambda: (peer(texts) @ marks.T).argmax(axis=1))
    return _row(f"{where}: classification of 32 documents by label names", ours, theirs,
                "sentence-transformers and a dot product")  # fmt: skip


def _analysed(where: str, vectors: Embedder, folder: Path) -> Row:
    from anyrig.documents.analyse.files import analyse_files
    from anyrig.documents.reading import read_all

    folder.mkdir()
    for number, text in enumerate(_documents(60)):
        (folder / f"{number:03d}.txt").write_text(text, encoding="utf-8")
    files = sorted(folder.iterdir())
    ours = _timed(
        lambda: analyse_files(files, read=read_all, root=folder, model=lambda _: vectors), rounds=3
    )
    return _row(f"{where}: analysis of a folder of 60 files", ours, None, "")


def _pages() -> list[Row]:
    """Twenty pages; on a GPU only where ONNX Runtime has a provider for it."""
    try:
        from rapidocr import RapidOCR  # noqa: F401

        from tests.documents.ocr.ocr_pages import TEXTS, page, png
    except ImportError as error:
        print(f"no OCR here: {error}", flush=True)
        return []
    pages = [png(page(TEXTS["en"][n:], dpi=200, name="", length=1500)[0]) for n in range(20)]
    rows = []
    machine = discover(os.environ)
    places = ["cpu"]
    if any(d.usable and d.library == "onnx" for gpu in machine.gpus for d in gpu.backends):
        places.append("gpu")
    else:
        print("OCR on a GPU was not measured: ONNX Runtime has no provider for one", flush=True)
    for where in places:
        ours = _read_pages(where, pages)
        theirs = _rapid_as_it_comes(pages[:4]) * len(pages) / 4 if where == "cpu" else None
        rows.append(
            Row(f"{where}: OCR of 20 pages", ours, "s", theirs,
                "rapidocr as it comes, on 4 of them" if theirs else "")
        )  # fmt: skip
    return rows


def _read_pages(where: str, pages: list[bytes]) -> float:
    from anyrig.documents.ocr.choose import choose as choose_engine
    from anyrig.documents.ocr.run import Pages

    machine = discover(os.environ)
    chosen = choose_engine("en", os.environ, wanted="rapidocr")
    choice = choose_device(machine, (DeviceRequest("cpu" if where == "cpu" else "auto", "flag"),))
    placed = plan_placement(machine, choice, chosen.need(len(pages)), environment=os.environ)
    with Pages(chosen, placed=placed, environment=os.environ, language="en") as reader:
        list(reader.read(pages[:1]))
        began = time.perf_counter()
        found = list(reader.read(pages))
        assert all(page.text for page in found)
        return time.perf_counter() - began


def _rapid_as_it_comes(pages: list[bytes]) -> float:
    from rapidocr import RapidOCR

    engine: Any = RapidOCR()
    engine(pages[0])
    began = time.perf_counter()
    for page in pages:
        engine(page)
    return time.perf_counter() - began
