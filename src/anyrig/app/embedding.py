"""Texts to vectors: the embedding model, where it runs, and what is cached of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.app.cache import open_cache
from anyrig.app.cluster import ClusterOptions, find_broker, open_embedding_pool
from anyrig.app.compute import (
    ComputeOptions,
    describe_model_options,
    format_stamp,
    place,
    test_devices,
)
from anyrig.app.documents import (
    FailedFile,
    SourceOptions,
    list_sources,
    read_sources,
    report_warnings,
)
from anyrig.app.files import check_writable, format_csv, format_json_lines, write_text
from anyrig.documents.protocol import LongTexts
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.events import NoticeEvent, OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.app.rig import Rig
    from anyrig.devices.machine import Cpu
    from anyrig.documents.embed import Embedder
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.vector_cache import VectorCache
    from anyrig.placement import PlacementPlan, Workload
    from anyrig.storage.cache import Cache

    Matrix = NDArray[np.float32]

VECTOR_FORMATS = (".npy", ".npz", ".jsonl", ".csv")
_WEIGHT_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "LICENSE*")
"""What is downloaded of a repository; an ONNX file only where it has no others."""
_FEW_CHARACTERS = 60_000
"""What is embedded in this process: another one takes as long to start."""
_BF16_TILES = "amx_bf16"
"""A CPU that multiplies bf16 in tiles does so several times as fast as fp32."""
_LANGUAGE_SAMPLES = 50
_NAME_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(ComputeOptions):
    """The embedding model."""

    model: str = option(
        "auto", "embedding model: a name from `anyrig embed --models`, a folder, or a hub name;"
        " auto chooses by the language of the texts", setting="documents.model", metavar="NAME",
    )  # fmt: skip
    fetch: bool = option(
        False, "download a model of the hub that is not on this machine", http=False
    )
    long: LongTexts = option(
        "windows", "texts longer than the model's limit: embed in windows and average, or cut",
    )  # fmt: skip
    deterministic: bool = option(False, "the same bytes for a text in any batch; slower")
    no_cache: bool = option(False, "do not read or write cached vectors")


@dataclass(frozen=True, kw_only=True)
class EmbedRequest(EmbeddingOptions, ClusterOptions, SourceOptions):
    """Embeddings."""

    names: tuple[str, ...] = option(
        (), "what the texts are called in the result; '' is the beginning of the text", flag=False
    )
    files: tuple[Path, ...] = option(
        (), "files and folders, one vector for each file", flag=False, http=False
    )
    output: Path | None = option(
        None, f"write the vectors to a file: {', '.join(VECTOR_FORMATS)}", short="-o",
        http=False, metavar="FILE",
    )  # fmt: skip
    query: bool = option(False, "the texts are search queries (for models that distinguish them)")
    similar: bool = option(False, "compare the texts with each other")


@dataclass(frozen=True)
class LanguageWarningEvent(WarningEvent):
    """Texts are in languages that the model was not trained on."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts, one row for each."""

    names: tuple[str, ...]
    vectors: Matrix
    model: str
    failed: tuple[FailedFile, ...] = ()
    similarity: Matrix | None = None
    """Cosines of all pairs, if they were requested."""
    wall_s: float = 0.0

    def iter_rows(self) -> Iterator[dict[str, object]]:
        """Each text's name and vector, ready for JSON."""
        for name, vector in zip(self.names, self.vectors, strict=True):
            yield {"name": name, "model": self.model, "vector": _to_numbers(vector)}

    def list_nearest_pairs(self, limit: int) -> list[tuple[float, str, str]]:
        """The pairs with the highest cosine, highest first."""
        import numpy as np

        assert self.similarity is not None
        first, second = np.triu_indices(len(self.names), 1)
        order = np.argsort(-self.similarity[first, second], kind="stable")[:limit]
        return [
            (float(self.similarity[a, b]), self.names[a], self.names[b])
            for a, b in zip(first[order], second[order], strict=True)
        ]

    def save(self, path: str | Path) -> None:
        """Write the vectors as .npy, .npz, .jsonl or .csv, by the name of the file."""
        import numpy as np

        from anyrig.storage.files import open_atomic

        path = Path(path)
        check_writable(path, VECTOR_FORMATS)
        format = path.suffix.lower()
        if format == ".jsonl":
            write_text(path, format_json_lines(self.iter_rows()))
        elif format == ".csv":
            header = ["name", *range(self.vectors.shape[1])]
            rows = zip(self.names, map(_to_numbers, self.vectors), strict=True)
            write_text(path, format_csv([header, *([name, *row] for name, row in rows)]))
        else:
            with open_atomic(path) as file:
                if format == ".npy":
                    np.save(file, self.vectors)
                else:
                    names = np.array(self.names)
                    np.savez(file, vectors=self.vectors, names=names, model=self.model)


def embed(rig: Rig, request: EmbedRequest, on_event: OnEvent) -> Embeddings:
    """Embed texts and files."""
    began = time.perf_counter()
    if request.output is not None:
        check_writable(request.output, VECTOR_FORMATS)
    texts, failed = _read_texts(rig, request, on_event)
    model = find_model(rig, request, detect_languages([text for _, text in texts]), on_event)
    size = sum(len(text) for _, text in texts)
    with open_vectors(rig, request, model, on_event, num_characters=size) as vectors:
        matrix = _embed(texts, vectors, request, on_event)
    result = Embeddings(
        names=tuple(name for name, _ in texts),
        vectors=matrix,
        model=model.name,
        failed=tuple(failed),
        similarity=_compare(matrix) if request.similar else None,
        wall_s=time.perf_counter() - began,
    )
    if request.output is not None and not request.similar:
        result.save(request.output)
    return result


def _read_texts(
    rig: Rig, request: EmbedRequest, on_event: OnEvent
) -> tuple[list[tuple[str, str]], list[FailedFile]]:
    """The names and texts of all sources, and the files that could not be read."""
    from anyrig.documents.reading import build_textless_error
    from anyrig.text.sandbox import ReadError

    sources = list_sources(request, on_event, "embed", default_name="")
    texts: list[tuple[str, str]] = []
    failed: list[FailedFile] = []
    for source, found in read_sources(rig, request, sources):
        if source.file is None:
            texts.append((source.name or _shorten(source.text), source.text))
            continue
        on_event(ProgressEvent("reading", len(texts), len(sources), source.file.name))
        if isinstance(found, ReadError):
            failed.append(FailedFile(source.name, found.error))
        elif not found.text.strip():
            failed.append(FailedFile(source.name, build_textless_error(found)))
        else:
            report_warnings(source.name, found.warnings, on_event)
            texts.append((source.name, found.text))
    if not texts:
        raise failed[0].error
    if request.similar and len(texts) < 2:
        raise InvalidInputError(
            "there is only one text",
            hint=Message("{similar} needs two or more.", similar=OptionRef("similar")),
        )
    return texts, failed


def _shorten(text: str) -> str:
    return text if len(text) <= _NAME_CHARACTERS else f"{text[: _NAME_CHARACTERS - 3]}..."


def _embed(
    texts: Sequence[tuple[str, str]], vectors: Vectors, request: EmbedRequest, on_event: OnEvent
) -> Matrix:
    import numpy as np

    blocks, done = [], 0
    on_event(ProgressEvent("embedding", 0, len(texts)))
    use: Literal["query", "passage"] = "query" if request.query else "passage"
    for block in vectors.embed((text for _, text in texts), use=use):
        blocks.append(block)
        done += len(block)
        on_event(ProgressEvent("embedding", done, len(texts), texts[done - 1][0]))
    return np.concatenate(blocks)


def _compare(matrix: Matrix) -> Matrix:
    import numpy as np

    lengths = np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    cosines: Matrix = (matrix / lengths) @ (matrix / lengths).T
    return cosines


def _to_numbers(vector: Matrix) -> list[float]:
    """With as many digits as a 32-bit number has."""
    return [float(f"{value:.9g}") for value in vector.tolist()]


# -- the model -------------------------------------------------------------------------------------


def detect_languages(texts: Sequence[str]) -> dict[str, float]:
    """Shares of the texts' languages, by a sample of them."""
    from anyrig.text.language import detect

    shares: dict[str, float] = {}
    for text in texts[:: max(1, len(texts) // _LANGUAGE_SAMPLES)]:
        found = detect(text)
        if found.sure:
            shares[found.language] = shares.get(found.language, 0.0) + 1.0
    return shares


def find_model(
    rig: Rig, options: EmbeddingOptions, languages: Mapping[str, float], on_event: OnEvent
) -> EmbeddingModel:
    """The requested embedding model, that of the settings, or one for the texts' languages; warns
    of languages that it was not trained on.
    """
    from anyrig.documents.model import advice

    fetch = partial(download_model, on_event=on_event) if options.fetch else None
    name = options.model or rig.settings.documents.model or "auto"
    model = look_up_model(rig, name, languages, fetch)
    warning = advice(model, languages) if model.languages else ""
    if warning:
        on_event(LanguageWarningEvent(warning))
    return model


def look_up_model(
    rig: Rig,
    name: str,
    languages: Mapping[str, float] = {},
    fetch: Callable[[str, Path], None] | None = None,
) -> EmbeddingModel:
    """The model of a name. Looking one up reads its files, so the answer may be kept."""
    from anyrig.documents.model import find, needs_multilingual

    mostly = "other languages" if needs_multilingual(languages) else "English"

    def look_up() -> AbstractContextManager[EmbeddingModel]:
        return nullcontext(find(name, models=rig.folders.models, languages=languages, fetch=fetch))

    with rig.models.borrow(
        f"choice of model ({name or 'auto'}, {mostly})", look_up, counted=False
    ) as model:
        return model


def format_reference(requested: str, model: EmbeddingModel) -> str:
    """What a model is found by again, from any folder: its name, or the path of its folder."""
    from anyrig.documents.packaged import PACKAGED

    folder = Path(requested).expanduser()
    if requested in ("", "auto", *PACKAGED) or not folder.exists():
        return model.name
    return str(folder.resolve())


def download_model(repository: str, folder: Path, on_event: OnEvent) -> None:
    """Download a model of the hub into a folder."""
    from anyrig.storage.weights import WeightSource, download_weights

    last = ""

    def report(name: str, done: int, total: int) -> None:
        nonlocal last
        if name != last:
            last = name
            size = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
            on_event(NoticeEvent(f"Downloading {name}: {size}"))

    source = WeightSource(repository, _WEIGHT_FILES)
    paths = download_weights(source, folder, on_progress=report)
    if not any(path.suffix == ".safetensors" for path in paths):
        source = WeightSource(repository, (*_WEIGHT_FILES, "model.onnx", "model.onnx_data"))
        download_weights(source, folder, on_progress=report)


@contextmanager
def open_embedder(
    rig: Rig,
    options: EmbeddingOptions,
    model: EmbeddingModel,
    on_event: OnEvent,
    *,
    num_characters: int | None = None,
    shared: bool = False,
) -> Iterator[Embedder]:
    """A model on the chosen devices; few texts on the CPU alone are embedded in this process.

    Args:
        rig: the machine.
        options: where and how.
        model: as `find_model` gives it.
        on_event: receives warnings.
        num_characters: of all texts; None if there may be any number.
        shared: whether it serves clients, and stays loaded.
    """
    from anyrig.documents.embed import Embedder
    from anyrig.memory.known_sizes import KnownBatchSizes

    open_pool = None
    few = num_characters is not None and num_characters <= _FEW_CHARACTERS
    if isinstance(options, ClusterOptions) and find_broker(rig, options):
        few, shared = False, False
        plan, open_pool = open_embedding_pool(
            rig, options, options, model, long=options.long, deterministic=options.deterministic
        )
    else:
        plan = _place_model(rig, options, model, num_characters, few=few, shared=shared)
    with Embedder(
        model,
        placed=plan,
        environment=rig.environment,
        limits=KnownBatchSizes(rig.folders.batch_limits),
        stamp=format_stamp(rig, plan),
        here=few,
        long=options.long,
        deterministic=options.deterministic,
        open_pool=open_pool,
    ) as embedder:
        yield embedder
        for warning in embedder.warnings:
            on_event(WarningEvent(warning))


def _place_model(
    rig: Rig,
    options: EmbeddingOptions,
    model: EmbeddingModel,
    num_characters: int | None,
    *,
    few: bool,
    shared: bool,
) -> PlacementPlan:
    """Where a model's workers run."""
    if few or not any(gpu.usable for gpu in rig.machine.gpus):
        options = replace(options, no_bench=True)  # nothing to choose between, or not worth it
    workload = build_workload(model, rig.machine.cpu, num_characters=num_characters, shared=shared)
    # The first client of a server does not wait for a measurement.
    choice = rig.choose_device(replace(options, no_bench=True) if shared else options)
    return test_devices(rig, place(rig, choice, workload, options), options)


@contextmanager
def borrow_embedder(
    rig: Rig,
    options: EmbeddingOptions,
    model: EmbeddingModel,
    on_event: OnEvent,
    *,
    num_characters: int | None = None,
) -> Iterator[Embedder]:
    """The embedder of `rig.models`: the same as `open_embedder`, but it may be kept for others.

    One that clients share must do for any texts: in processes of its own on a GPU, and in this
    process without one.
    """
    report = rig.report if rig.models.keep else on_event  # a kept one outlives the call
    if rig.models.shared:
        gpu = options.device != "cpu" and any(gpu.usable for gpu in rig.machine.gpus)
        num_characters = None if gpu else 0
    few = num_characters is not None and num_characters <= _FEW_CHARACTERS
    with rig.models.borrow(
        f"embeddings {model.name}"
        if few or rig.models.shared
        else f"embeddings {model.name}, many",
        lambda: open_embedder(rig, options, model, report, num_characters=num_characters),
        version=f"{model.fingerprint} {options.long} {options.deterministic}"
        f" {getattr(options, 'cluster', '')} {describe_model_options(rig, options)}",
        exclusive=not rig.models.shared,
    ) as embedder:
        yield embedder


def build_workload(
    model: EmbeddingModel, cpu: Cpu, *, num_characters: int | None, shared: bool
) -> Workload:
    """What a model's workers need, by how much there is to do and for how long.

    A CPU with bf16 tiles is used as a GPU is, through torch and in bf16, if the model stays loaded:
    for a few texts, loading torch would take longer than all of them.
    """
    workload = model.need()
    if shared and _BF16_TILES in cpu.vectors:
        workload = replace(workload, libraries=workload.gpu_libraries)
    if num_characters is not None:
        workload = replace(workload, max_workers=max(1, num_characters // _FEW_CHARACTERS))
    return workload


@contextmanager
def open_vectors(
    rig: Rig,
    options: EmbeddingOptions,
    model: EmbeddingModel,
    on_event: OnEvent,
    *,
    num_characters: int | None = None,
) -> Iterator[Vectors]:
    """A model behind the cache: cached vectors are not made again."""
    from anyrig.documents.vector_cache import CachedEmbedder

    with ExitStack() as stack:
        embedder = stack.enter_context(
            borrow_embedder(rig, options, model, on_event, num_characters=num_characters)
        )
        cache = None if options.no_cache else stack.enter_context(open_cache(rig))
        if cache is None:
            yield embedder
            return
        vectors = open_vector_cache(
            cache, model, embedder.precision, options.long, options.deterministic
        )
        yield CachedEmbedder(embedder, vectors, on_found=embedder.count_cut)


def open_vector_cache(
    cache: Cache, model: EmbeddingModel, precision: str, long: LongTexts, deterministic: bool
) -> VectorCache:
    """The cached vectors of a model: their key is everything beside a text that determines one."""
    from anyrig.documents.vector_cache import VectorCache

    return VectorCache(cache, model, precision=precision, long=long, deterministic=deterministic)
