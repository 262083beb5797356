"""What is asked of documents: each task's options, for a body of JSON and for a form with files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_FILES = 200
MOST_LABELS = 200
UPLOAD = r"^upload:[0-9a-f]{32}$"
_FILE = "upload:9f0c1e2d3b4a59687786950413223140"
Upload = Annotated[str, Field(pattern=UPLOAD, examples=[_FILE])]
Language = Annotated[
    str, Field(pattern=r"^([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?)?$", examples=["en", "es", "fr"])
]
Texts = Annotated[list[str], Field(fail_fast=True)]
"""One invalid text is enough to say so: there may be a million of them."""
Ocr = Literal["auto", "never", "always"]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=64, examples=["letters"])]
Date = Annotated[str, Field(max_length=20, examples=["2026-03-01", "2026-03", "30d"])]


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


class Options(BaseModel):
    """What every task on files takes."""

    model_config = ConfigDict(extra="forbid")

    ocr: Ocr | None = Field(
        None, description="Read pictures of pages: auto where they have no usable text."
    )


class Sources(BaseModel):
    """Texts, files, or both: each has an outcome of its own."""

    texts: Texts = Field([], description="Each is answered on its own.")
    files: list[Upload] = Field(
        [], max_length=MOST_FILES, description="Files that were sent, as `upload:ID`."
    )

    @model_validator(mode="after")
    def _some(self) -> Sources:
        if not self.texts and not self.files:
            raise ValueError("there are neither texts nor files")
        return self


# -- vectors ---------------------------------------------------------------------------------------


class EmbedOptions(Options):
    """How vectors are made."""

    model: str = Field("", max_length=300, description="As GET /v1/models has it.")
    use: Literal["passage", "query"] = Field("passage", description="What the vectors are for.")


class EmbedAsked(Sources, EmbedOptions):
    """Texts and files to vectors; a file has one for each passage."""

    model_config = _example(texts=["The rent is due on Monday."])


# -- labels ----------------------------------------------------------------------------------------


class ClassifyOptions(Options):
    """By what, and how, texts are sorted."""

    labels: list[Word] = Field(
        [], max_length=MOST_LABELS,
        description="What a text may be; a few words may follow a colon: `invoice: a bill to pay`.",
    )  # fmt: skip
    classifier: str = Field(
        "", max_length=80, description="A trained one, `bills` or `bills@2`, instead of labels."
    )
    multi: bool = Field(False, description="A text may have any number of labels.")
    other: bool = Field(False, description="That no label fits is an answer as well.")
    threshold: float = Field(0.0, ge=0, le=1, description="The probability that a label needs.")
    pool: Literal["mean", "vote"] = Field(
        "mean", description="A long text is the mean of its passages, or of their answers."
    )
    templates: list[Word] = Field(
        [], max_length=20, description="Sentences with {} for a label, instead of ours."
    )
    model: str = Field("", max_length=300, description="The embedding model, for labels.")

    @model_validator(mode="after")
    def _one_way(self) -> ClassifyOptions:
        if bool(self.labels) == bool(self.classifier):
            raise ValueError("give either labels or a classifier")
        return self


class ClassifyAsked(Sources, ClassifyOptions):
    """Texts and files to labels."""

    model_config = _example(
        texts=["Please pay 120 euros by the end of the month."],
        labels=["invoice: a bill to pay", "letter", "recipe"],
    )


# -- entities --------------------------------------------------------------------------------------


class EntitiesOptions(Options):
    """What is looked for."""

    kinds: list[Word] = Field(
        [], max_length=50,
        description="person, organisation, place, date, money, percent, email, phone, iban, tax, "
        "card; all when empty.",
    )  # fmt: skip
    language: Language = Field("", description="Found out for each paragraph when empty.")
    engine: Literal["auto", "grammar", "spacy"] = Field(
        "auto", description="What finds names; grammar finds none, and needs nothing installed."
    )
    unchecked: bool = Field(False, description="Also numbers whose check digits fail.")
    distinct: bool = Field(False, description="Each thing once a document, with how often.")


class EntitiesAsked(Sources, EntitiesOptions):
    """Texts and files to what they name."""

    model_config = _example(texts=["John Brown paid 1,200 euros on 4 May 2026."])


# -- pictures of pages -----------------------------------------------------------------------------


class OcrOptions(BaseModel):
    """How pages are read."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["text", "json", "pdf"] = Field(
        "text",
        description="json has the boxes of lines and words; pdf is the file itself with its words "
        "laid under the pages, to be searched: one file a request.",
    )
    language: Language = Field("", description="Of the pages; it helps.")
    engine: Literal["auto", "rapidocr", "tesseract"] = "auto"
    pages: str = Field("", max_length=200, pattern=r"^[0-9,\- ]*$", examples=["1-3,7"])
    dpi: int = Field(300, ge=36, le=1200, description="At which pages of a PDF are drawn.")
    always: bool = Field(False, description="Read pages that have text of their own as well.")


class OcrAsked(OcrOptions):
    """Pictures and scanned PDFs to what stands on them."""

    model_config = _example(files=[_FILE], format="json", language="en")

    files: list[Upload] = Field(min_length=1, max_length=MOST_FILES)


# -- an index --------------------------------------------------------------------------------------


class Filters(BaseModel):
    """Which files of an index are asked."""

    model_config = ConfigDict(extra="forbid")

    folders: list[Annotated[str, Field(min_length=1, max_length=1000)]] = Field(
        [], max_length=20, description="Only what lies in one of these folders of the index."
    )
    types: list[Word] = Field([], max_length=20, examples=[["pdf", "docx"]])
    languages: list[Word] = Field([], max_length=20, examples=[["en", "Spanish"]])
    after: Date = Field("", description="Changed on that day or later.")
    before: Date = Field("", description="Changed before that day.")


class SearchOptions(Filters):
    """How an index is searched."""

    index: Name = "default"
    mode: Literal["hybrid", "vectors", "keywords"] = Field(
        "hybrid", description="By meaning and words, by meaning, or by words."
    )
    limit: int = Field(10, ge=1, le=1000)
    per_file: bool = Field(False, description="The best passage of each file alone.")
    all: bool = Field(False, description="Also what is not near the question.")
    least: float | None = Field(
        None, ge=0, le=1, description="The least similarity of what has no word of the question."
    )


class SearchAsked(SearchOptions):
    """A question to an index."""

    model_config = _example(index="letters", question="when is the rent due")

    question: str = Field(min_length=1, max_length=10_000)


class SearchesAsked(SearchOptions):
    """Several questions to an index."""

    model_config = _example(index="letters", questions=["when is the rent due", "who is the owner"])

    questions: list[Annotated[str, Field(min_length=1, max_length=10_000)]] = Field(
        min_length=1, max_length=100
    )


class SimilarOptions(Filters):
    """Where likeness is looked for."""

    index: Name = Field("default", description="Asked where no texts or files are given.")
    limit: int = Field(10, ge=1, le=1000)
    model: str = Field(
        "", max_length=300, description="To compare texts and files with each other."
    )
    ocr: Ocr | None = None


class SimilarAsked(SimilarOptions):
    """What is most like a text or a file: in an index, or among these texts and files."""

    model_config = _example(to_text="The landlord may raise the rent once a year.", index="letters")

    to_text: str = Field("", description="Either this or `to_file`.")
    to_file: Upload | None = None
    texts: Texts = []
    files: list[Upload] = Field([], max_length=MOST_FILES)

    @model_validator(mode="after")
    def _one_way(self) -> SimilarAsked:
        if bool(self.to_text) == bool(self.to_file):
            raise ValueError("give either to_text or to_file")
        return self


class RemoveAsked(BaseModel):
    """Files to take out of an index for good."""

    model_config = _example(files=[_FILE])

    files: list[Annotated[str, Field(min_length=1, max_length=4000)]] = Field(
        min_length=1, max_length=1000,
        description="As the index lists them: `upload:ID`, or a path of the index.",
    )  # fmt: skip
    uploads: bool = Field(True, description="Delete the uploads among them as well.")


# -- the whole -------------------------------------------------------------------------------------


class AnalyseOptions(Options):
    """How documents are compared."""

    title: str = Field("", max_length=200)
    vectors: bool = Field(True, description="Compare by an embedding model, not by words alone.")
    model: str = Field("", max_length=300, description="The embedding model.")
    seed: int = Field(0, ge=0, lt=2**31, description="Another one may cut clusters another way.")
    format: Literal["json", "html"] = Field(
        "json", description="html is a page with plots that needs no network."
    )


class AnalyseAsked(Sources, AnalyseOptions):
    """What documents hold, each and together."""

    model_config = _example(texts=["The first of two texts.", "The second of two texts."])


class SummariseOptions(Options):
    """How long a summary is, and who writes it."""

    sentences: int = Field(0, ge=0, le=1000, description="How many; five when nothing is said.")
    words: int = Field(0, ge=0, le=100_000, description="At most so many.")
    share: float = Field(0.0, ge=0, le=1, description="This share of the sentences.")
    by_chapter: bool = Field(False, description="A summary of each chapter: for books.")
    language: Language = ""
    vectors: bool = Field(False, description="Weigh sentences by the embedding model as well.")
    model: str = Field(
        "", max_length=300, description="A model that writes; the text's own sentences without one."
    )

    @model_validator(mode="after")
    def _one_length(self) -> SummariseOptions:
        if sum(map(bool, (self.sentences, self.words, self.share))) > 1:
            raise ValueError("give one of sentences, words and share")
        return self


class SummariseAsked(Sources, SummariseOptions):
    """Texts and files in a few sentences."""

    model_config = _example(
        texts=["The meeting was long. Nobody agreed. In the end the roof will be mended."],
        sentences=1,
    )
