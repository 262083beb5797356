"""What tasks on documents answer. The answers are made by clerks; these say what is in them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field

R = TypeVar("R")


class Failure(BaseModel):
    """Why one source could not be done."""

    status: int = Field(description="What the request would have been answered with, were it all.")
    title: str = Field(description="What went wrong.")
    hint: str = Field(description="What to do next.")


class Outcome(BaseModel, Generic[R]):
    """What came of one text or file."""

    name: str = Field(description="`text 1`, or what the file's sender called it.")
    file: str | None = Field(None, description="`upload:ID` where it was one.")
    result: R | None = None
    error: Failure | None = None


class Told(BaseModel, Generic[R]):
    """An outcome for each source, texts first, in their order.

    Where all of them failed, the answer is the first one's problem instead.
    """

    results: list[Outcome[R]]
    num_failed: int = 0


class Piece(BaseModel):
    """A passage and its vector."""

    text: str
    page: int = Field(description="From 1; 0 in what has no pages.")
    start: int = Field(description="In its page, in characters.")
    file_start: int = Field(description="In the text of the file.")
    title: str = ""
    vector: list[float]


class Embedded(BaseModel):
    """A text's vector, or a file's passages with theirs."""

    vector: list[float] | None = Field(None, description="Of a text.")
    passages: list[Piece] | None = Field(None, description="Of a file.")
    warnings: list[str] = []


class Sorted(BaseModel):
    """What a text is."""

    label: str | None
    labels: list[str]
    probability: float
    probabilities: dict[str, float]
    calibrated: bool = Field(description="Whether probabilities were fitted to examples.")
    passages: int
    why: dict[str, Any] | None = Field(description="The passage that speaks for it most.")
    warnings: list[str]


class Entity(BaseModel):
    """Something that is named; more fields say what it means."""

    kind: str
    text: str
    start: int
    end: int
    source: str
    score: float
    page: int | None = None
    page_start: int | None = None


class Named(BaseModel):
    """What a text names."""

    entities: list[Entity]
    languages: list[str]
    warnings: list[str]


class OcrPage(BaseModel):
    """A page; with format=json also its lines and words with their boxes."""

    number: int
    source: str = Field(description="ocr, text (the file's own), or none.")
    text: str


class Pages(BaseModel):
    """What stands in a file."""

    format: str
    text: str
    pages: list[OcrPage]
    failed: list[dict[str, Any]]
    engine: str


class Summaries(BaseModel):
    """Summaries of a text, or of its chapters."""

    summaries: list[dict[str, Any]]
    warnings: list[str]


class Hit(BaseModel):
    """A passage that was found."""

    name: str = Field(description="What the file is called.")
    file: str = Field(description="`upload:ID`, or its path.")
    score: float
    similarity: float | None
    text: str
    matches: list[list[int]] = Field(description="What to show bright: from, to, in the text.")
    page: int | None
    title: str
    start: int = Field(description="In the page, in characters.")
    end: int
    file_start: int = Field(description="In the text of the file.")
    file_end: int
    type: str
    language: str
    changed: str
    also: list[dict[str, Any]] = Field(description="Other places that say the same.")
    more_passages: int


class Found(BaseModel):
    """What a search found."""

    question: str
    index: str
    words: list[str] = Field(description="What was looked for word by word.")
    hits: list[Hit]
    nearest: Hit | None = Field(description="Where nothing is near enough: what is nearest.")
    not_near: int
    notes: list[str]


class Founds(BaseModel):
    """What several searches found, in the order of the questions."""

    results: list[Found]


class Alike(BaseModel):
    """One of the sources that were compared."""

    name: str
    file: str | None = None
    similarity: float


class Similar(BaseModel):
    """What is most like something: hits of an index, or sources that were given."""

    to: str
    index: str | None = None
    hits: list[Hit] = []
    model: str | None = None
    similar: list[Alike] = []
    failed: list[dict[str, Any]] = []


class Analysis(BaseModel):
    """What documents hold, each and together."""

    title: str
    model: str | None
    num_documents: int
    num_words: int
    languages: dict[str, float]
    phrases: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    duplicates: list[dict[str, Any]]
    passages: list[dict[str, Any]]
    documents: list[dict[str, Any]]
    failed: list[dict[str, Any]]


class Index(BaseModel):
    """An index and its figures."""

    name: str
    model: str
    dimension: int
    folders: list[dict[str, Any]]
    files: int
    passages: int
    vectors: int
    ocr_pages: int
    types: dict[str, int]
    languages: dict[str, int]
    failed: list[dict[str, Any]]
    size_bytes: int


class Indexes(BaseModel):
    """What there is."""

    indexes: list[Index]
    failed: list[dict[str, Any]] = Field(description="Indexes that cannot be read.")


class IndexFile(BaseModel):
    """A file of an index."""

    name: str
    file: str
    size: int
    ocr_pages: int
    error: str
    hint: str


class IndexFiles(BaseModel):
    """Some of the files of an index."""

    index: str
    total: int
    files: list[IndexFile]


class Gone(BaseModel):
    """What was deleted for good."""

    index: str
    files: list[str]
    passages: int
    kept: int = Field(description="Vectors and pages that were kept of them elsewhere.")
    uploads: list[str] = Field(
        description="Uploads that were deleted with it: those that no other index holds, and no "
        "job that is not over needs."
    )
    clean: bool = Field(description="False where another process still reads; its end clears it.")


class Classifier(BaseModel):
    """A classifier that was trained."""

    name: str
    version: int
    title: str
    labels: list[str]
    kind: str
    examples: int
    embedding: str
    made: str
    figures: dict[str, Any] | None


class Classifiers(BaseModel):
    """What was trained and is kept."""

    classifiers: list[Classifier]
