"""Four document tasks, on the CPU and on the GPU of one machine.

Embeddings of 100 documents, classification of 32 by label names, the analysis of a folder, and on a
GPU OCR of 20 pages (`ocr_pages` measures a CPU): warm, wall seconds, the median of some rounds,
with the model that needs no download. The peer of embeddings and classification is
sentence-transformers with the same weights on the same device; of OCR, RapidOCR as it comes. What a
machine cannot do is printed and has no row.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.embed import Embedder
from anyrig.documents.model_folder import in_folder
from anyrig.documents.packaged import PACKAGED
from anyrig.placement import plan_placement
from benchmarks.embedding_models import (
    MINILM_SIZE,
    build_bert,
    find_tokenizer,
    open_embedder,
    save_minilm,
    save_model,
)
from benchmarks.harness import Row, median_and_range, time_calls
from benchmarks.texts import sample_passages

ROUNDS = 5
LABELS = "a trial, a meal, a journey, a dream, a quarrel, a lesson"


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if PACKAGED["minilm"].lack():
            print("random weights: the package of the default model is not installed", flush=True)
            save_model(folder / "minilm", build_bert(MINILM_SIZE), find_tokenizer())
        else:
            save_minilm(folder / "minilm")
        devices = ["cpu", *(["gpu"] if any(gpu.usable for gpu in discover().gpus) else [])]
        rows: list[Row] = []
        for device in devices:
            rows += _text_tasks(device, folder)
        return [*rows, *_ocr()]


def _request(device: str) -> str:
    return "cpu" if device == "cpu" else "auto"


def _text_tasks(device: str, folder: Path) -> list[Row]:
    from sentence_transformers import SentenceTransformer

    texts = _documents(100)
    peer: Any = SentenceTransformer(
        str(folder / "minilm"), device="cpu" if device == "cpu" else "cuda",
        model_kwargs={"dtype": "float32"},
    )  # fmt: skip

    def encode(texts: list[str]) -> Any:
        return peer.encode(texts, show_progress_bar=False)

    model = in_folder(folder / "minilm", name="minilm")
    precision = "fp32" if device == "cpu" else "auto"
    with open_embedder(model, _request(device), precision=precision) as embedder:
        return [
            _row(f"{device}: embeddings of 100 documents",
                 time_calls(lambda: embedder.matrix(texts), ROUNDS),
                 time_calls(lambda: encode(texts), ROUNDS), "sentence-transformers encode()"),
            _classify(device, embedder, encode, texts[:32]),
            _analyse(device, embedder, folder / device),
        ]  # fmt: skip


def _row(what: str, ours: list[float], peer: list[float] | None = None, name: str = "") -> Row:
    seconds, spread = median_and_range(ours)
    peer_s = median_and_range(peer)[0] if peer else None
    return Row(what, seconds, "s", peer_s, name, spread=spread)


def _documents(count: int) -> list[str]:
    return sample_passages(count, lambda rng: rng.randint(40, 400), random.Random(11))


def _classify(
    device: str, embedder: Embedder, encode: Callable[[list[str]], Any], texts: list[str]
) -> Row:
    from anyrig.documents.classify.labels import build_labels, split_labels
    from anyrig.documents.classify.pipeline import classify_sources
    from anyrig.documents.classify.zero import ByName
    from anyrig.documents.reading import TextSource, read_sources

    classifier = ByName(build_labels(split_labels(LABELS)), embedder)
    sources = [TextSource(str(number), text=text) for number, text in enumerate(texts)]

    def classify() -> None:
        found = list(classify_sources(read_sources(sources), classifier, embedder))
        assert len(found) == len(texts)

    labels = encode(LABELS.split(", "))
    peer = time_calls(lambda: (encode(texts) @ labels.T).argmax(axis=1), ROUNDS)
    return _row(f"{device}: classification of 32 documents by label names",
                time_calls(classify, ROUNDS), peer,
                "sentence-transformers and a dot product")  # fmt: skip


def _analyse(device: str, embedder: Embedder, folder: Path) -> Row:
    from anyrig.documents.analyse.folder import analyse_files
    from anyrig.documents.reading import read_all

    folder.mkdir()
    for number, text in enumerate(_documents(60)):
        (folder / f"{number:03d}.txt").write_text(text, encoding="utf-8")
    files = sorted(folder.iterdir())

    def analyse() -> None:
        analyse_files(files, read=read_all, root=folder, model=lambda _: embedder)

    return _row(f"{device}: analysis of a folder of 60 files", time_calls(analyse, 3))


def _ocr() -> list[Row]:
    """Twenty pages, where ONNX Runtime has a provider for a GPU."""
    backends = [backend for gpu in discover().gpus for backend in gpu.backends]
    if not any(backend.usable and backend.library == "onnx" for backend in backends):
        print("OCR was not measured: ONNX Runtime has no provider for a GPU", flush=True)
        return []
    try:
        from rapidocr import RapidOCR

        from tests.documents.ocr.ocr_pages import TEXTS, page, png
    except ImportError as error:
        print(f"no OCR here: {error}", flush=True)
        return []
    pages = [png(page(TEXTS["en"][n:], dpi=200, name="", length=1500)[0]) for n in range(20)]
    engine: Any = RapidOCR()
    (peer_s,) = time_calls(lambda: [engine(page) for page in pages[:4]], 1)
    return [Row("gpu: OCR of 20 pages", _read_pages(pages), "s", peer_s * len(pages) / 4,
                "rapidocr on the CPU, 4 of them")]  # fmt: skip


def _read_pages(pages: list[bytes]) -> float:
    from anyrig.documents.ocr.choose import choose as choose_engine
    from anyrig.documents.ocr.run import OcrReader

    machine = discover(os.environ)
    chosen = choose_engine("en", os.environ, wanted="rapidocr")
    choice = choose_device(machine, (DeviceRequest("auto", "flag"),))
    placed = plan_placement(machine, choice, chosen.need(len(pages)), environment=os.environ)
    with OcrReader(chosen, placed=placed, environment=os.environ, language="en") as reader:
        list(reader.read(pages[:1]))
        start = time.perf_counter()
        found = list(reader.read(pages))
        assert all(page.text for page in found)
        return time.perf_counter() - start
