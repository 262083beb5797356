"""Keyword arguments of the methods of `Rig`, by the requests that define them.

Written by `scripts/generate` for type checkers and editors; nothing imports it when programs run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict


class VoiceOptionsKeywords(TypedDict, total=False):
    """Options of `VoiceOptions` in `anyrig.app.engines`."""

    engine: str
    """speech engine; `anyrig engines` lists them."""
    voice: str
    """voice; `anyrig voices` lists them; a:2+b blends two."""
    model: str | Path | None
    """folder with the engine's weights."""
    language: str
    """language of the text, such as en, es or fr; auto detects it."""
    rate: float
    """speaking rate; 2 is twice as fast."""
    seed: int
    """random seed; another number gives another take."""
    set: Mapping[str, str | float]
    """an option of the engine; `anyrig engines show NAME` lists them."""
    lexicon: str | Path | None
    """lexicon file with pronunciations."""


class PauseOptionsKeywords(TypedDict, total=False):
    """Options of `PauseOptions` in `anyrig.app.speech`."""

    pause_clause: float
    """pause inside a long sentence, where it was split."""
    pause_sentence: float
    """pause after a sentence."""
    pause_paragraph: float
    """pause after a paragraph."""
    pause_heading: float
    """pause before and after a heading."""
    pause_dialogue: float
    """pause between speakers of a dialogue."""


class ClusterOptionsKeywords(TypedDict, total=False):
    """Options of `ClusterOptions` in `anyrig.app.cluster`."""

    cluster: str
    """use the workers of this broker: an address such as redis://HOST:6379/0, a token, `yes`
    for the configured broker or this machine's coordinator, or `no`."""
    cluster_local: bool
    """with a cluster: also use this machine's devices."""


class DeviceOptionsKeywords(TypedDict, total=False):
    """Options of `DeviceOptions` in `anyrig.app.compute`."""

    device: str
    """auto, all, cpu, cuda:1, rocm:0, xpu:0, mps, dml:0, webgpu:0, an index, an id or part
    of a name."""
    strict: bool
    """fail if the requested device cannot be used."""
    no_bench: bool
    """do not measure a device on first use."""


class ComputeOptionsKeywords(DeviceOptionsKeywords, total=False):
    """Options of `ComputeOptions` in `anyrig.app.compute`."""

    precision: str
    """auto, fp32, tf32, fp16 or bf16; auto uses the best measured one."""
    profile: Literal["quality", "balanced", "fast", "low-memory"]
    """what to prefer; `anyrig devices --profiles` shows what each means here."""
    memory_gb: float | None
    """use at most N GiB of a device."""
    memory_fraction: float | None
    """use at most this fraction of a device's memory."""
    workers_per_device: int | None
    """processes on each device; a CPU has one on each core where that is faster."""


class SynthesisOptionsKeywords(
    VoiceOptionsKeywords,
    PauseOptionsKeywords,
    ClusterOptionsKeywords,
    ComputeOptionsKeywords,
    total=False,
):
    """Options of `SynthesisOptions` in `anyrig.app.speech`."""


class AudioOptionsKeywords(TypedDict, total=False):
    """Options of `AudioOptions` in `anyrig.app.speech`."""

    loudness: float
    """target loudness of files; 0: unchanged."""
    fresh: bool
    """ignore cached results."""


class SpeakKeywords(SynthesisOptionsKeywords, AudioOptionsKeywords, total=False):
    """Options of `SpeechRequest` in `anyrig.app.speech`."""

    ssml: bool
    """the text is SSML; detected if it begins with <speak."""


class ReadingOptionsKeywords(TypedDict, total=False):
    """Options of `ReadingOptions` in `anyrig.app.books`."""

    notes: Literal["skip", "inline", "end"]
    """footnotes."""
    tables: Literal["speak", "skip"]
    """tables."""
    images: Literal["speak", "skip"]
    """descriptions of pictures."""
    poems: Literal["lines", "prose", "skip"]
    """poems."""
    code: Literal["skip", "speak"]
    """listings."""
    pages: Literal["skip", "speak"]
    """page numbers and running heads."""
    titles: Literal["speak", "skip"]
    """titles that only the table of contents has."""
    depth: int
    """levels of chapters: 1 is the highest only; default: by their length."""
    matter: Literal["skip", "speak"]
    """covers, copyright pages, tables of contents."""
    foreign: Literal["refuse", "skip", "read"]
    """paragraphs in a language that the voice does not speak."""
    cast: str | Path | None
    """cast file: voices by character."""


class BookFileOptionsKeywords(TypedDict, total=False):
    """Options of `BookFileOptions` in `anyrig.app.books`."""

    title: str
    """title; default: from the file."""
    untitled: str
    """title of a book that has none."""
    author: str
    """author; default: from the file."""
    narrator: str
    """narrator; default: name of the voice."""
    genre: str
    """genre tag."""
    cover: str | Path | None
    """cover image, JPEG or PNG; default: from the file."""
    captions: str | Sequence[str]
    """write captions: srt, vtt or both."""
    read_along: bool
    """also write an EPUB 3 that highlights spoken words."""
    loudness: float | None
    """target loudness; default -19; 0: unchanged."""
    bitrate: int | str | None
    """bit rate, such as 96k; default of an m4b: 64k."""
    rest_before: float
    """silence before a chapter."""
    rest_after: float
    """silence after a chapter."""


class MakeBookKeywords(
    ReadingOptionsKeywords, BookFileOptionsKeywords, SynthesisOptionsKeywords, total=False
):
    """Options of `BookRequest` in `anyrig.app.books`."""

    more_files: str | Path | Sequence[str | Path]
    """further files of the same book, in order."""
    follow_links: bool
    """read the pages that a web page links to, if it is an index."""
    format: str | None
    """m4b, or one file per chapter: mp3, opus, flac, m4a, wav."""
    chapters: str | int | Sequence[str | int]
    """such as 3-7,9 or 5-; default: all but front matter."""
    again: str | Sequence[str]
    """make segments again, as chapter:segment, such as 3:17,4:2."""
    allow_gaps: bool
    """write the book even if passages failed, as silence."""
    fresh: bool
    """ignore cached results."""
    levels: Literal["book", "acx"]
    """loudness standard."""


class VoicesKeywords(
    PauseOptionsKeywords, ClusterOptionsKeywords, ComputeOptionsKeywords, total=False
):
    """Options of `VoicesRequest` in `anyrig.app.voices`."""

    engine: str
    """speech engine; `anyrig engines` lists them."""
    voice: str
    """voice; `anyrig voices` lists them; a:2+b blends two."""
    model: str | Path | None
    """folder with the engine's weights."""
    language: str
    """only voices of this language: en, es, fr."""
    rate: float
    """speaking rate; 2 is twice as fast."""
    seed: int
    """random seed; another number gives another take."""
    set: Mapping[str, str | float]
    """an option of the engine; `anyrig engines show NAME` lists them."""
    lexicon: str | Path | None
    """lexicon file with pronunciations."""
    match: str
    """only voices with this in their name, or `female`."""
    samples: str | Path | None
    """write a sample of each voice into this folder."""
    format: str
    """format of the samples: wav, flac, mp3, opus, m4a."""
    text: str
    """text of the samples."""
    ssml: bool
    """the text is SSML; detected if it begins with <speak."""


class SampleOptionsKeywords(TypedDict, total=False):
    """Options of `SampleOptions` in `anyrig.app.voice_samples`."""

    engine: str
    """engine that makes a voice of the sample."""
    model: str | Path | None
    """folder with the engine's weights."""


class AddVoiceKeywords(SampleOptionsKeywords, total=False):
    """Options of `AddVoiceRequest` in `anyrig.app.voice_samples`."""

    consent_by: str
    """your name: you declare that the speaker agreed to the use of their voice."""
    force: bool
    """add the voice despite failed checks."""


class NearestVoicesKeywords(SynthesisOptionsKeywords, total=False):
    """Options of `NearestVoiceRequest` in `anyrig.app.voice_samples`."""

    limit: int
    """how many voices to show."""
    blend: bool
    """try blends of the nearest two, where the engine can blend."""


class TranscribeKeywords(ComputeOptionsKeywords, total=False):
    """Options of `TranscriptionRequest` in `anyrig.app.transcription`."""

    names: str | Sequence[str]
    """what the recordings are called in results and errors, if not by their own names."""
    output: str | Path
    """the file, or the folder for several recordings."""
    format: str | Sequence[str]
    """txt, md, srt, vtt, json; several as srt,txt."""
    language: str
    """spoken language, such as en; default: detected."""
    model: str
    """a folder, a name on the hub, moonshine, whisper-base, or a size such as small."""
    fetch: bool
    """download a model of the hub that is not on this machine."""
    engine: Literal["moonshine", "whisper", "transformers"] | None
    """what runs the model; default: by its files."""
    translate: bool
    """translate into English."""
    word_times: bool
    """include word times (not with moonshine)."""
    fresh: bool
    """ignore cached results."""


class FileLimitOptionsKeywords(ComputeOptionsKeywords, total=False):
    """Options of `FileLimitOptions` in `anyrig.app.documents`."""

    type: str | Sequence[str]
    """read only files of these types, such as pdf,docx,picture."""
    max_mb: float
    """skip and report larger files."""
    max_pages: int
    """skip and report files with more pages, those of attachments included."""
    max_seconds: float
    """time limit for reading one file, without OCR."""
    max_ocr_pages: int | None
    """read no more pages by OCR in one call."""
    max_ocr_seconds: float | None
    """time limit for the OCR of one call."""
    private: bool
    """neither use nor keep cached results of these files."""


class OcrKeywords(FileLimitOptionsKeywords, total=False):
    """Options of `OcrRequest` in `anyrig.app.ocr`."""

    output: str | Path
    """the file, or the folder for several."""
    format: str | None
    """txt, json, pdf or hocr; default: by the output's suffix."""
    language: str
    """language of the pages, such as en, es or fr."""
    engine: Literal["auto", "rapidocr", "tesseract"]
    """OCR engine; auto: tesseract on a CPU, rapidocr on a GPU and for other languages."""
    pages: str
    """page numbers, such as 1-3,7."""
    dpi: int
    """resolution at which PDF pages are rendered."""
    always: bool
    """also run OCR on pages that have text."""
    fresh: bool
    """ignore cached results."""


class FileOptionsKeywords(FileLimitOptionsKeywords, total=False):
    """Options of `FileOptions` in `anyrig.app.documents`."""

    ocr: Literal["auto", "never", "always"]
    """run OCR on pages; auto: on those without usable text."""


class FindEntitiesKeywords(FileOptionsKeywords, total=False):
    """Options of `EntitiesRequest` in `anyrig.app.entities`."""

    texts: str | Sequence[str]
    """texts, besides the files."""
    names: str | Sequence[str]
    """what the texts are called in the result."""
    kinds: str | Sequence[str]
    """find only these kinds, such as person,iban."""
    language: str
    """language of the texts: en, fr, es, en-GB; default: detected by paragraph."""
    engine: Literal["auto", "grammar", "spacy", "gliner", "tokens"]
    """what finds names; grammar: none."""
    model: str
    """a token-classification or GLiNER model (folder or hub name), or a spaCy model."""
    labels: str | Sequence[str]
    """what a GLiNER model looks for: 'disease,medicine'."""
    threshold: float
    """minimum score of a neural model's entities."""
    unchecked: bool
    """also report numbers that fail validation and invalid dates, marked."""
    filter: str
    """find only entities whose text or value contains this, in any case."""
    distinct: bool
    """a table of names: each entity once per document, with its count and pages."""
    redact: bool
    """replace each entity in the text by its kind, such as [PERSON]."""
    output: str | Path | None
    """write to a file: .csv, .tsv, .jsonl, .json, .txt; with redact a text file, or a folder
    for several texts."""
    text: str | Sequence[str]
    """texts, besides the files."""


class ClassifierModelOptionsKeywords(FileOptionsKeywords, total=False):
    """Options of `ClassifierModelOptions` in `anyrig.app.classify`."""

    model: str
    """embedding model: a name from `anyrig embed --models`, a folder, or a hub name; auto
    chooses by the language of the texts."""
    fetch: bool
    """download a model of the hub that is not on this machine."""
    long: Literal["windows", "cut"]
    """texts longer than the model's limit: embed in windows and average, or cut."""
    deterministic: bool
    """the same bytes for a text in any batch; slower."""
    no_cache: bool
    """do not read or write cached vectors."""
    multi: bool
    """a text may have any number of labels."""


class ClassifyKeywords(ClassifierModelOptionsKeywords, total=False):
    """Options of `ClassifyRequest` in `anyrig.app.classify`."""

    names: str | Sequence[str]
    """what the texts are called in the result."""
    labels: str | Sequence[str] | None
    """labels by name, each perhaps with a description: `invoice: a bill to pay`."""
    classifier: str | None
    """a trained classifier, a folder, or owner/name on the hub."""
    template: str | Sequence[str]
    """with labels: sentences with {} for the label."""
    other: bool | None
    """answer `none of these` where no label fits; a fine-tuned model does not by default."""
    threshold: float
    """minimum probability of a label; 0.5 if a text may have several."""
    pool: Literal["mean", "vote"]
    """long texts: average the passages' vectors, or their answers."""
    output: str | Path | None
    """write a table: .csv or .jsonl."""


class TrainClassifierKeywords(ClassifierModelOptionsKeywords, total=False):
    """Options of `TrainClassifierRequest` in `anyrig.app.classify`."""

    name: str
    """name of the classifier."""
    prior: Literal["even", "examples"]
    """prior of labels: equal, or as in the examples."""


class FineTuneKeywords(ClassifierModelOptionsKeywords, total=False):
    """Options of `FineTuneRequest` in `anyrig.app.training`."""

    epochs: int
    """passes over the examples."""
    batch: int
    """batch size."""
    learning_rate: float
    """learning rate."""
    seed: int
    """random seed of the split, new layers and order of examples."""
    held: float
    """fraction of the examples held out for evaluation."""
    balanced: bool
    """give rare labels the same weight as common ones."""


class EmbeddingOptionsKeywords(ComputeOptionsKeywords, total=False):
    """Options of `EmbeddingOptions` in `anyrig.app.embedding`."""

    model: str
    """embedding model: a name from `anyrig embed --models`, a folder, or a hub name; auto
    chooses by the language of the texts."""
    fetch: bool
    """download a model of the hub that is not on this machine."""
    long: Literal["windows", "cut"]
    """texts longer than the model's limit: embed in windows and average, or cut."""
    deterministic: bool
    """the same bytes for a text in any batch; slower."""
    no_cache: bool
    """do not read or write cached vectors."""


class EmbedKeywords(EmbeddingOptionsKeywords, ClusterOptionsKeywords, total=False):
    """Options of `EmbedRequest` in `anyrig.app.embedding`."""

    type: str | Sequence[str]
    """read only files of these types, such as pdf,docx,picture."""
    max_mb: float
    """skip and report larger files."""
    max_pages: int
    """skip and report files with more pages, those of attachments included."""
    max_seconds: float
    """time limit for reading one file, without OCR."""
    max_ocr_pages: int | None
    """read no more pages by OCR in one call."""
    max_ocr_seconds: float | None
    """time limit for the OCR of one call."""
    private: bool
    """neither use nor keep cached results of these files."""
    ocr: Literal["auto", "never", "always"]
    """run OCR on pages; auto: on those without usable text."""
    names: str | Sequence[str]
    """what the texts are called in the result; '' is the beginning of the text."""
    output: str | Path | None
    """write the vectors to a file: .npy, .npz, .jsonl, .csv."""
    query: bool
    """the texts are search queries (for models that distinguish them)."""
    similar: bool
    """compare the texts with each other."""


class IndexOptionsKeywords(TypedDict, total=False):
    """Options of `IndexOptions` in `anyrig.app.index`."""

    index: str
    """name of the index; default: `default`, as on the web page."""


class IndexKeywords(IndexOptionsKeywords, ClusterOptionsKeywords, FileOptionsKeywords, total=False):
    """Options of `IndexRequest` in `anyrig.app.index`."""

    model: str
    """embedding model; default: the index's own, or one for the language of the files."""
    fetch: bool
    """download a model of the hub that is not on this machine."""
    long: Literal["windows", "cut"]
    """texts longer than the model's limit: embed in windows and average, or cut."""
    deterministic: bool
    """the same bytes for a text in any batch; slower."""
    no_cache: bool
    """do not read or write cached vectors."""
    retry: bool
    """retry files that could not be read."""


class FilterOptionsKeywords(TypedDict, total=False):
    """Options of `FilterOptions` in `anyrig.app.search`."""

    folder: str | Path | Sequence[str | Path]
    """only files in this folder."""
    type: str | Sequence[str]
    """only files of these types, such as pdf,docx,eml,picture."""
    language: str | Sequence[str]
    """only files in these languages, such as en,es or Spanish."""
    after: str
    """only files changed on this day or later."""
    before: str
    """only files changed before this day."""


class SearchKeywords(
    FilterOptionsKeywords, IndexOptionsKeywords, ComputeOptionsKeywords, total=False
):
    """Options of `SearchRequest` in `anyrig.app.search`."""

    model: str
    """embedding model; default: the index's own."""
    fetch: bool
    """download a model of the hub that is not on this machine."""
    long: Literal["windows", "cut"]
    """texts longer than the model's limit: embed in windows and average, or cut."""
    deterministic: bool
    """the same bytes for a text in any batch; slower."""
    no_cache: bool
    """do not read or write cached vectors."""
    mode: Literal["hybrid", "vectors", "keywords"]
    """by vectors and keywords, by vectors, or by keywords."""
    limit: int
    """maximum number of passages."""
    files: bool
    """only the best passage of each file."""
    all: bool
    """also passages below the similarity threshold."""
    min: float | None
    """minimum similarity of passages without a word of the question."""


class AskKeywords(FilterOptionsKeywords, IndexOptionsKeywords, ComputeOptionsKeywords, total=False):
    """Options of `AskRequest` in `anyrig.app.ask`."""

    model: str
    """embedding model; default: the index's own."""
    fetch: bool
    """download a model of the hub that is not on this machine."""
    long: Literal["windows", "cut"]
    """texts longer than the model's limit: embed in windows and average, or cut."""
    deterministic: bool
    """the same bytes for a text in any batch; slower."""
    no_cache: bool
    """do not read or write cached vectors."""
    passages: int
    """answer from so many passages."""
    llm: str
    """answer with the language model of this server, which needs OpenAI's interface;
    default: quote the sentences that answer best."""
    llm_model: str
    """model of that server; default: the first that it lists."""
    llm_seconds: float
    """time limit for its answer."""


class AnalyseKeywords(EmbeddingOptionsKeywords, total=False):
    """Options of `AnalyseRequest` in `anyrig.app.analyse`."""

    type: str | Sequence[str]
    """read only files of these types, such as pdf,docx,picture."""
    max_mb: float
    """skip and report larger files."""
    max_pages: int
    """skip and report files with more pages, those of attachments included."""
    max_seconds: float
    """time limit for reading one file, without OCR."""
    max_ocr_pages: int | None
    """read no more pages by OCR in one call."""
    max_ocr_seconds: float | None
    """time limit for the OCR of one call."""
    private: bool
    """neither use nor keep cached results of these files."""
    ocr: Literal["auto", "never", "always"]
    """run OCR on pages; auto: on those without usable text."""
    texts: str | Sequence[str]
    """texts, besides the files."""
    names: str | Sequence[str]
    """what the texts are called in the result."""
    output: str | Path | None
    """write the report to this file: .html."""
    similar: str | Path | None
    """also list the documents that are most similar to this one."""
    file_names: str | Sequence[str]
    """what the files are called in the result, if not by their own names."""
    title: str
    """title of the report."""
    no_vectors: bool
    """compare documents by words only; faster."""
    seed: int
    """random seed of the clustering."""
    text: str | Sequence[str]
    """texts, besides the files."""


class SummariseKeywords(FileOptionsKeywords, total=False):
    """Options of `SummariseRequest` in `anyrig.app.summarise`."""

    texts: str | Sequence[str]
    """texts, besides the files."""
    names: str | Sequence[str]
    """what the texts are called in the result."""
    sentences: int | None
    """number of sentences; default 5."""
    words: int | None
    """at most N words."""
    share: float | None
    """this fraction of the sentences."""
    by_chapter: bool
    """summarise each chapter of a book."""
    model: str
    """a model that writes summaries: a folder, or owner/name on the hub."""
    fetch: bool
    """download a model of the hub that is not on this machine."""
    vectors: bool
    """also use the embedding model to choose sentences."""
    language: str
    """language of the text; default: detected."""
    places: bool
    """show the page and offset of each sentence."""
    bullets: bool
    """a list, with the page of each sentence where there are pages."""
    output: str | Path | None
    """write the summaries to a file: .txt, .md, .json."""
    text: str | Sequence[str]
    """texts, besides the files."""


class DevicesKeywords(TypedDict, total=False):
    """Options of `DeviceOptions` in `anyrig.app.compute`."""

    device: str
    """auto, all, cpu, cuda:1, rocm:0, xpu:0, mps, dml:0, webgpu:0, an index, an id or part
    of a name."""
    strict: bool
    """fail if the requested device cannot be used."""
    no_bench: bool
    """do not measure a device on first use."""


class UseKeywords(TypedDict, total=False):
    """Options of `DeviceOptions` in `anyrig.app.compute`."""

    strict: bool
    """fail if the requested device cannot be used."""
    no_bench: bool
    """do not measure a device on first use."""


class DiagnoseKeywords(DeviceOptionsKeywords, total=False):
    """Options of `DoctorRequest` in `anyrig.app.devices`."""

    no_kernels: bool
    """do not run kernels on the devices."""
    selftest: bool
    """also test every attention backend and precision of torch, and disable those with wrong
    results (up to a minute per GPU)."""


class BenchKeywords(SynthesisOptionsKeywords, total=False):
    """Options of `BenchRequest` in `anyrig.app.bench`."""

    quick: bool
    """a few seconds per device, without the large matrix product."""
    plot: str | Path | None
    """also write a plot as SVG."""
    speech: bool
    """measure a speech engine instead: load time, first audio, real-time factor."""
    no_save: bool
    """do not save the measurements."""


class ProfileKeywords(DeviceOptionsKeywords, total=False):
    """Options of `ProfileRequest` in `anyrig.app.profiling`."""

    precision: str
    """auto, fp32, tf32, fp16 or bf16; auto uses the best measured one."""
    profile: Literal["quality", "balanced", "fast", "low-memory"]
    """what to prefer; `anyrig devices --profiles` shows what each means here."""
    memory_gb: float | None
    """use at most N GiB of a device."""
    memory_fraction: float | None
    """use at most this fraction of a device's memory."""
    workers_per_device: int
    inference: bool
    """the forward pass instead of a training step."""
    shape: int | Sequence[int]
    """shape of one input of MODULE:FUNCTION, without the batch."""
    tokens: int | None
    """inputs are token ids below N instead of floats."""
    length: int | None
    """sequence length; also of other dynamic axes of an .onnx file."""
    sizes: int | Sequence[int]
    """batch sizes to measure; default: 1, 2, 4, ... while they fit."""
    most: int | None
    """largest batch size to try."""
    longest: float
    """maximum seconds per step; default 30."""
    plot: str | Path | None
    """also write a plot as SVG."""


class TrainKeywords(DeviceOptionsKeywords, total=False):
    """Options of `TrainingRequest` in `anyrig.app.training`."""

    run: str | Path | None
    """folder of the run; default: runs/NAME-DATE; an existing run is resumed."""
    resume: str | Path | None
    """folder of a run to resume."""
    fresh: bool
    """discard the run in the folder and start over."""
    set: Mapping[str, str | float]
    """replace a value of the file, such as train.learning_rate=1e-3."""
    steps: int | None
    """the same as train.steps."""
    nproc: str | int
    """number of processes, one per device; auto: all devices of the chosen kind."""
    strategy: str
    """ddp: each process has the whole model; fsdp: each has a shard."""
    export: str | Path | None
    """also copy the trained model to this folder, or its ONNX file to X.onnx."""
    tensorboard: bool
    """also write TensorBoard files into the run's folder."""
    precision: str | None
    """auto, fp32, tf32, fp16, bf16 or fp8; auto uses the best measured one."""
    profile: Literal["quality", "balanced", "fast", "low-memory"] | None
    """what to prefer; `anyrig devices --profiles` shows what each means here."""
    memory_gb: float | None
    """use at most N GiB of a device."""
    memory_fraction: float | None
    """use at most this fraction of a device's memory."""
    folder: str | Path | None
    """folder of the run; default: runs/NAME-DATE; an existing run is resumed."""
