"""`Rig`: this machine, its settings and stores, and everything anyrig can do with them.

    from anyrig import Rig

    rig = Rig()
    rig.speak("Hello.").save("hello.wav")

Nothing is looked up, opened or loaded before it is needed.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from anyrig.app.settings import CONFIG_VARIABLE, LOADER, Settings
from anyrig.devices.choose import (
    DeviceChoice,
    DeviceRequest,
    MeasuredDevices,
    choose_device,
    resolve_request,
)
from anyrig.errors import InvalidSettingError, Message
from anyrig.options import check_names, check_required, list_options
from anyrig.settings.folders import Folders, find_folders
from anyrig.settings.load import LoadedSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.app.ask import AskResult
    from anyrig.app.bench import BenchReport
    from anyrig.app.book_listing import ChapterList
    from anyrig.app.classify import ClassifyResult, TrainedResult
    from anyrig.app.compute import DeviceOptions
    from anyrig.app.devices import DeviceList, Diagnosis
    from anyrig.app.embedding import Embeddings
    from anyrig.app.entities import EntitiesResult
    from anyrig.app.index import IndexResult
    from anyrig.app.jobs import Jobs
    from anyrig.app.keywords import (
        AddVoiceKeywords,
        AnalyseKeywords,
        AskKeywords,
        BenchKeywords,
        ClassifyKeywords,
        DevicesKeywords,
        DiagnoseKeywords,
        EmbedKeywords,
        FindEntitiesKeywords,
        FineTuneKeywords,
        IndexKeywords,
        MakeBookKeywords,
        NearestVoicesKeywords,
        OcrKeywords,
        ProfileKeywords,
        SearchKeywords,
        SpeakKeywords,
        SummariseKeywords,
        TrainClassifierKeywords,
        TrainKeywords,
        TranscribeKeywords,
        UseKeywords,
        VoicesKeywords,
    )
    from anyrig.app.lexicons import LexiconFiles
    from anyrig.app.models import ModelCache
    from anyrig.app.ocr import OcrResult
    from anyrig.app.profiling import BatchSizeProfile
    from anyrig.app.speech import Speech
    from anyrig.app.transcription import TranscriptionResult
    from anyrig.app.voice_samples import AddedVoice, NearestVoice
    from anyrig.audiobooks.make import BookResult
    from anyrig.bench.measurements import Measurements
    from anyrig.devices.machine import Device, Machine
    from anyrig.documents.analyse.folder import Analysis
    from anyrig.documents.index.search import SearchResult
    from anyrig.documents.summarise.files import FileSummary
    from anyrig.events import Event, OnEvent, ProgressEvent
    from anyrig.settings.saved_device import SavedDevice
    from anyrig.speech.choose import WeightsCache
    from anyrig.speech.engine import Voice
    from anyrig.training.fine_tune import FineTuneResult
    from anyrig.training.runs import RegisteredRun, TrainingResult

log = logging.getLogger(__name__)
T = TypeVar("T")
_IDLE_S, _MAX_MODELS, _EVICTION_INTERVAL_S = 600.0, 4, 15.0
_MAX_REMEMBERED_WARNINGS = 200
AskDevice = Callable[["Rig"], "str | None"]
# A recorded machine is seen as if these were set there.
_WHAT_IF_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)  # fmt: skip


class Rig:
    """This machine, its settings and stores, and everything anyrig can do with them.

    Args:
        config: a settings file, instead of `anyrig.toml` in the working directory.
        settings_folder: where `anyrig.toml` and `.env` are looked for, instead of the working
            directory. They are not trusted: see docs/settings.md.
        environment: variables to read instead of the process's own.
        machine: another machine than this one: recorded by `anyrig devices --record` if it is a
            path.
        on_event: receives warnings and notices that belong to no single call; the log gets them
            without it.
        ask_device: asks a person which of several GPUs to use, where none was chosen yet.
        models: where models are loaded, if several objects share them.
        keep_models: whether models stay loaded from one call to the next, at most four of them and
            each until nothing used it for ten minutes; `close` and the end of the program close
            them.
    """

    def __init__(
        self,
        *,
        config: str | Path | None = None,
        settings_folder: str | Path = "",
        environment: Mapping[str, str] | None = None,
        machine: Machine | Path | None = None,
        on_event: OnEvent | None = None,
        ask_device: AskDevice | None = None,
        models: ModelCache | None = None,
        keep_models: bool = True,
    ) -> None:
        self.environment = dict(os.environ if environment is None else environment)
        self.config = str(config) if config else self.environment.get(CONFIG_VARIABLE)
        self.settings_folder = Path(settings_folder)
        self._given_machine, self._given_models = machine, models
        self._keep_models = keep_models
        self._ask_device = ask_device
        self._reporter = _EventReporter(on_event or log_event)
        # Libraries read these when they load.
        self.environment.update(self.loaded_settings.process_variables)
        if environment is None:
            os.environ.update(self.loaded_settings.process_variables)

    # -- settings and folders ----------------------------------------------------------------------

    @cached_property
    def engine_weights(self) -> WeightsCache:
        """Weights of speech engines as last found."""
        from anyrig.speech.choose import WeightsCache

        return WeightsCache()

    @cached_property
    def folders(self) -> Folders:
        return find_folders(self.environment)

    @cached_property
    def loaded_settings(self) -> LoadedSettings[Settings]:
        """The settings, with where each came from."""
        if self.config and not Path(self.config).is_file():
            raise InvalidSettingError(
                f"settings file not found: {self.config}", hint="Check the path."
            )
        return LOADER.load(
            self.environment,
            user_file=self.folders.config / "anyrig.toml",
            project_file=Path(self.config or self.settings_folder / "anyrig.toml"),
            project_named=bool(self.config),
            dotenv=self.settings_folder / ".env",
        )

    @property
    def settings(self) -> Settings:
        return self.loaded_settings.settings

    def describe_origin(self, key: str) -> str:
        """Where a setting comes from: a variable's name, or a key and its file."""
        kind, place = self.loaded_settings.origins.get(key, ("default", ""))
        return place if kind == "environment" else f"{key} in {place}" if place else key

    def close(self) -> None:
        """Close the models that are loaded; they are loaded again when they are needed."""
        if self._given_models is None:
            models: ModelCache | None = self.__dict__.pop("models", None)
            if models is not None:
                models.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(self, kind: type[T], /, **given: Any) -> T:
        """Build a request: what is given, then what the settings say, then the defaults."""
        options = list_options(kind)
        values = dict(given)
        for name, option in options.items():
            if option.alias in values and option.alias not in options:
                values[name] = values.pop(option.alias) or values.get(name, option.default)
        check_names(kind, values)
        check_required(kind, values)
        for name, option in options.items():
            if name in given or not option.setting or option.excludes in given:
                continue
            if option.setting in self.loaded_settings.origins and option.fill:
                value = self.settings[option.setting]
                if value is not None:
                    values[name] = value
        return kind(**values)

    @cached_property
    def jobs(self) -> Jobs:
        """Long work that is queued: `rig.jobs.submit("book", file="novel.epub")`."""
        from anyrig.app.jobs import Jobs

        return Jobs(self)

    @cached_property
    def lexicons(self) -> LexiconFiles:
        """Lexicon files that were read."""
        from anyrig.app.lexicons import LexiconFiles

        return LexiconFiles()

    # -- events ------------------------------------------------------------------------------------

    @contextmanager
    def report_to(self, on_event: OnEvent | None) -> Iterator[OnEvent]:
        """Send what is reported in the block to `on_event`, or to this object's own without one.

        Each call is told every warning that concerns it, once.
        """
        reporter = _EventReporter(on_event or self._reporter.on_event)
        token = _current_reporter.set((self, reporter))
        try:
            yield reporter.report
        finally:
            _current_reporter.reset(token)

    def report(self, event: Event) -> None:
        """Report an event to whoever made the current call, or else follows this object.

        A warning is not repeated.
        """
        rig, reporter = _current_reporter.get() or (None, None)
        (reporter if rig is self and reporter else self._reporter).report(event)

    def warn(self, message: str) -> None:
        from anyrig.events import WarningEvent

        self.report(WarningEvent(message))

    def notice(self, message: str) -> None:
        from anyrig.events import NoticeEvent

        self.report(NoticeEvent(message))

    # -- models ------------------------------------------------------------------------------------

    @cached_property
    def models(self) -> ModelCache:
        """The models of this process."""
        from anyrig.app.models import ModelCache

        if self._given_models is not None:
            return self._given_models
        if not self._keep_models:
            return ModelCache(keep=False)
        models = ModelCache(idle_s=_IDLE_S, max_models=_MAX_MODELS, shared=False)
        models.evict_in_background(_EVICTION_INTERVAL_S)
        weakref.finalize(self, models.close)  # at the latest when the program ends
        return models

    # -- devices -----------------------------------------------------------------------------------

    @cached_property
    def machine(self) -> Machine:
        from anyrig.devices.discovery import discover, from_record

        if isinstance(self._given_machine, Path):
            from anyrig.devices.probe import load_record

            what_if = {name: self.environment[name] for name in _WHAT_IF_VARIABLES
                       if name in self.environment}  # fmt: skip
            return from_record(load_record(self._given_machine), what_if)
        return self._given_machine or discover(self.environment)

    @property
    def is_recorded(self) -> bool:
        """Whether the machine is another than this one: then nothing is measured or saved."""
        return self._given_machine is not None

    @cached_property
    def measurements(self) -> Measurements:
        """What `anyrig bench` and first uses measured."""
        from anyrig.bench.measurements import Measurements

        return Measurements() if self.is_recorded else Measurements.load(self.folders.measurements)

    @cached_property
    def saved_device(self) -> SavedDevice | None:
        """The device that `anyrig use` saved. A damaged file is reported and ignored."""
        from anyrig.settings.saved_device import load_saved_device

        if self.is_recorded:
            return None
        try:
            return load_saved_device(self.folders.saved_device)
        except InvalidSettingError as error:
            self.warn(
                Message("{problem}; it is ignored. {hint}", problem=error.message, hint=error.hint)
            )
            return None

    def reload_saved_device(self) -> None:
        """Read the saved device again: another process may have changed it."""
        self.__dict__.pop("saved_device", None)

    @property
    def measured_devices(self) -> MeasuredDevices:
        return (
            MeasuredDevices()
            if self.is_recorded
            else self.measurements.measured_devices(self.machine)
        )

    def device_requests(self, options: DeviceOptions) -> tuple[DeviceRequest, ...]:
        """Which devices were requested, the strongest first."""
        requests = []
        if options.device:
            requests.append(DeviceRequest(options.device, "flag"))
        origin = self.loaded_settings.origins.get("device")
        if origin is not None:
            requests.append(DeviceRequest(self.settings.device, origin[0], place=origin[1]))
        if self.saved_device is not None:
            requests.append(
                DeviceRequest(self.saved_device.device, "saved", self.saved_device.name)
            )
        return tuple(requests)

    def choose_device(self, options: DeviceOptions) -> DeviceChoice:
        """The device for some work. Measures it on its first use, unless that is switched off."""
        self.ask_device(options)
        choice = self.preview_device(options)
        for warning in choice.warnings:
            self.warn(warning)
        if self.may_measure(options) and choice.selector != "all":
            self.measure_first_use(choice.device)
        return choice

    def ask_device(self, options: DeviceOptions) -> None:
        """Let a person choose one of several GPUs, where none was chosen yet: now or never."""
        ask, self._ask_device = self._ask_device, None
        several = sum(gpu.usable for gpu in self.machine.gpus) > 1
        if ask is not None and several and not self.device_requests(options):
            answer = ask(self)
            if answer is not None:
                self.save_device(answer)

    def preview_device(self, options: DeviceOptions) -> DeviceChoice:
        """The device that some work would use: nothing is asked, measured or reported."""
        choice = choose_device(
            self.machine, self.device_requests(options), measured=self.measured_devices,
            strict=options.strict,
        )  # fmt: skip
        log.info("device: %s (%s)", ", ".join(d.name for d in choice.devices), choice.reason)
        for skipped in choice.skipped:
            log.info("skipped: %s (%s)", skipped.device.name, skipped.reason)
        return choice

    def choose_cpu(self, options: DeviceOptions) -> DeviceChoice:
        """The CPU, for work that runs nowhere else; a requested device that does not exist is still
        reported.
        """
        request = next((r for r in self.device_requests(options) if r.origin != "saved"), None)
        if request is not None and request.selector.strip().lower() != "auto":
            match = resolve_request(self.machine, request, strict=options.strict)
            if match.warning:
                self.warn(match.warning)
        return choose_device(self.machine, (DeviceRequest("cpu", "flag"),))

    def save_device(self, selector: str) -> SavedDevice:
        """Use a device from now on, as `anyrig use` does."""
        from anyrig.settings.saved_device import SavedDevice, save_device

        device = self.machine.find(selector)
        self.saved_device = SavedDevice(selector, device.name if device else selector)
        save_device(self.folders.saved_device, self.saved_device)
        return self.saved_device

    def may_measure(self, options: DeviceOptions) -> bool:
        """Whether a device may be measured on its first use."""
        return bool(self.settings.bench and not options.no_bench and not self.is_recorded)

    def measure_first_use(self, device: Device) -> None:
        """Measure a device that was not measured under its present driver: a few seconds, once."""
        known = self.measurements.find(device, self.machine)
        if known and known.measurements:
            return
        from anyrig.app.bench import measure_devices

        self.notice(f"Measuring {device.name}, once ...")
        measure_devices(self, [device], self.report, quick=True)

    # -- abilities ---------------------------------------------------------------------------------

    def speak(
        self, text: str, *, on_event: OnEvent | None = None, **options: Unpack[SpeakKeywords]
    ) -> Speech:
        """Synthesise a text; the options are fields of `SpeechRequest`.

        Rig().speak("Hello.", voice="heart", rate=1.1).save("hello.mp3")
        """
        from anyrig.app import speech

        request = self.request(speech.SpeechRequest, text=text, **options)
        with self.report_to(on_event) as report:
            return speech.speak(self, request, report)

    def make_book(
        self,
        file: str | Path,
        output: str | Path | None = None,
        *,
        on_progress: Callable[[ProgressEvent], None] | None = None,
        on_event: OnEvent | None = None,
        **options: Unpack[MakeBookKeywords],
    ) -> BookResult:
        """Make an audiobook; the options are fields of `BookRequest`.

        Rig().make_book("novel.epub", "novel.m4b", voice="heart", read_along=True)
        Rig().make_book("novel.epub", on_progress=lambda now: print(f"{now.fraction:.0%}"))

        A call that was interrupted goes on where it was when it is made again.
        """
        from anyrig.app import books
        from anyrig.app.books import parse_output
        from anyrig.events import ProgressEvent

        if isinstance(output, str):
            output = parse_output(output, Path(file), options.get("format"))

        request = self.request(books.BookRequest, file=file, output=output, **options)
        with self.report_to(on_event) as report:

            def forward(event: Event) -> None:
                if on_progress is not None and isinstance(event, ProgressEvent):
                    on_progress(event)
                report(event)

            return books.make_book(self, request, forward)

    def list_chapters(
        self,
        file: str | Path,
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[MakeBookKeywords],
    ) -> ChapterList:
        """The chapters of a book, and how long it will be; the options are fields of `BookRequest`.

        for chapter in Rig().list_chapters("novel.epub").chapters:
            print(chapter.number, chapter.title, chapter.estimated_s)
        """
        from anyrig.app.book_listing import list_chapters
        from anyrig.app.books import BookRequest

        request = self.request(BookRequest, file=file, **options)
        with self.report_to(on_event) as report:
            return list_chapters(self, request, report)

    def voices(self, **options: Unpack[VoicesKeywords]) -> list[Voice]:
        """The voices of every engine that is installed; the options are fields of `VoicesRequest`.

        print([voice.name for voice in Rig().voices(language="fr")])
        """
        from anyrig.app import voices

        return voices.list_voices(self, self.request(voices.VoicesRequest, **options))

    def add_voice(
        self,
        name: str,
        sample: str | Path,
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[AddVoiceKeywords],
    ) -> AddedVoice:
        """Add a voice from a recording; the options are fields of `AddVoiceRequest`.

        Rig().add_voice("anna", "anna.wav", engine="xtts", consent_by="A. Miller")
        """
        from anyrig.app import voice_samples

        request = self.request(
            voice_samples.AddVoiceRequest, name=name, sample=Path(sample), **options
        )
        with self.report_to(on_event) as report:
            return voice_samples.add_voice(self, request, report)

    def nearest_voices(
        self,
        sample: str | Path,
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[NearestVoicesKeywords],
    ) -> list[NearestVoice]:
        """The installed voices that sound most like a recording, the nearest first; the options
        are fields of `NearestVoiceRequest`.
        """
        from anyrig.app import voice_samples

        request = self.request(voice_samples.NearestVoiceRequest, sample=Path(sample), **options)
        with self.report_to(on_event) as report:
            return voice_samples.find_nearest_voices(self, request, report)

    def transcribe(
        self,
        *files: str | Path,
        on_event: OnEvent | None = None,
        **options: Unpack[TranscribeKeywords],
    ) -> TranscriptionResult:
        """Transcribe recordings; the options are fields of `TranscriptionRequest`.

        Rig().transcribe("talk.mp3", language="en").save("talk.srt")

        A recording that cannot be read is in `failed` of the result; if none can, the first error
        is raised.
        """
        from anyrig.app import transcription

        request = self.request(transcription.TranscriptionRequest, files=files, **options)
        with self.report_to(on_event) as report:
            found = tuple(transcription.transcribe(self, request, report))
        result = transcription.TranscriptionResult(found)
        if not result.transcripts:
            raise result.failed[0].error
        return result

    def ocr(
        self, *files: str | Path, on_event: OnEvent | None = None, **options: Unpack[OcrKeywords]
    ) -> OcrResult:
        """Read the text of images and scanned PDFs; the options are fields of `OcrRequest`.

        print(Rig().ocr("scan.pdf", language="en").text)
        Rig().ocr("scans", output="searchable", format="pdf")

        A file that cannot be read is in `failed` of the result; if none can, the first error is
        raised.
        """
        from anyrig.app import ocr

        request = self.request(ocr.OcrRequest, files=files, **options)
        with self.report_to(on_event) as report:
            result = ocr.read_text(self, request, report)
        if len(result.failed) == len(result.files):
            raise result.failed[0].error
        return result

    def find_entities(
        self,
        *files: str | Path,
        on_event: OnEvent | None = None,
        **options: Unpack[FindEntitiesKeywords],
    ) -> EntitiesResult:
        """Find people, places, dates, amounts and numbers; the options are fields of
        `EntitiesRequest`.

        for row in Rig().find_entities("letter.pdf", kinds=["iban", "date"]).list_rows():
            print(row["kind"], row["value"], row["page"])

        A file that cannot be read is in `failed` of the result; if none can, the first error is
        raised.
        """
        from anyrig.app import entities

        request = self.request(entities.EntitiesRequest, files=files, **options)
        with self.report_to(on_event) as report:
            found = entities.find_entities(self, request, report)
        result = entities.EntitiesResult(tuple(found))
        if len(result.failed) == len(result.sources):
            raise result.failed[0].error
        return result

    def classify(
        self,
        *files: str | Path,
        texts: Sequence[str] = (),
        on_event: OnEvent | None = None,
        **options: Unpack[ClassifyKeywords],
    ) -> ClassifyResult:
        """Classify files and texts; the options are fields of `ClassifyRequest`.

        Rig().classify("inbox", labels=["invoice: a bill to pay", "letter"]).save("inbox.csv")
        Rig().classify(texts=["Please pay by Friday."], classifier="bills").labels

        A file that cannot be read is in `failed` of the result; if none can, the first error is
        raised.
        """
        from anyrig.app import classify

        request = self.request(classify.ClassifyRequest, files=files, texts=texts, **options)
        with self.report_to(on_event) as report:
            result = classify.classify(self, request, report)
        if len(result.failed) == len(result.texts):
            raise result.failed[0].error
        return result

    def train_classifier(
        self,
        examples: str | Path,
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[TrainClassifierKeywords],
    ) -> TrainedResult:
        """Train a classifier on examples; the options are fields of `TrainClassifierRequest`.

        Rig().train_classifier("examples", name="bills").about.figures["accuracy"]
        """
        from anyrig.app import classify

        request = self.request(classify.TrainClassifierRequest, examples=examples, **options)
        with self.report_to(on_event) as report:
            return classify.train_classifier(self, request, report)

    def fine_tune(
        self,
        examples: str | Path,
        folder: str | Path,
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[FineTuneKeywords],
    ) -> FineTuneResult:
        """Train all weights of a text model on examples and save it in a folder; the options are
        fields of `FineTuneRequest`.

        Rig().fine_tune("examples.csv", "bills-model", epochs=4).after["accuracy"]
        Rig().classify("inbox", classifier="bills-model")
        """
        from anyrig.app import training

        request = self.request(
            training.FineTuneRequest, examples=examples, fine_tune=folder, **options
        )
        with self.report_to(on_event) as report:
            return training.fine_tune(self, request, report)

    def embed(
        self,
        texts: Sequence[str],
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[EmbedKeywords],
    ) -> NDArray[np.float32]:
        """The vectors of texts, one row for each; the options are fields of `EmbedRequest`.

        vectors = Rig().embed(["a red car", "a scarlet automobile"])
        print(vectors[0] @ vectors[1])
        """
        from anyrig.app import embedding

        request = self.request(embedding.EmbedRequest, texts=texts, **options)
        with self.report_to(on_event) as report:
            return embedding.embed(self, request, report).vectors

    def embed_files(
        self,
        files: Sequence[str | Path],
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[EmbedKeywords],
    ) -> Embeddings:
        """A vector of each file, those in folders included; files that cannot be read are listed.

        Rig().embed_files(["papers"]).save("papers.npz")
        """
        from anyrig.app import embedding

        request = self.request(embedding.EmbedRequest, files=files, **options)
        with self.report_to(on_event) as report:
            return embedding.embed(self, request, report)

    def index(
        self,
        folders: str | Path | Sequence[str | Path] = (),
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[IndexKeywords],
    ) -> IndexResult:
        """Make folders searchable, or bring those of the index up to date; the options are fields
        of `IndexRequest`.

        Rig().index("~/letters", index="letters")
        """
        from anyrig.app import index

        request = self.request(index.IndexRequest, folders=folders, **options)
        with self.report_to(on_event) as report:
            return index.index(self, request, report)

    def search(
        self, question: str, *, on_event: OnEvent | None = None, **options: Unpack[SearchKeywords]
    ) -> SearchResult:
        """The passages of an index that answer a question; the options are fields of
        `SearchRequest`.

        for hit in Rig().search("when is the rent due", index="letters").hits:
            print(hit.place.file, hit.place.page, hit.text)
        """
        from anyrig.app import search

        request = self.request(search.SearchRequest, question=question, **options)
        with self.report_to(on_event) as report:
            return search.search(self, request, report)

    def ask(
        self, question: str, *, on_event: OnEvent | None = None, **options: Unpack[AskKeywords]
    ) -> AskResult:
        """Answer a question from an index, with the passages cited; the options are fields of
        `AskRequest`.

        print(Rig().ask("when is the rent due", index="letters").text)
        """
        from anyrig.app import ask

        request = self.request(ask.AskRequest, question=question, **options)
        with self.report_to(on_event) as report:
            return ask.ask(self, request, report)

    def analyse(
        self,
        files: str | Path | Sequence[str | Path],
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[AnalyseKeywords],
    ) -> Analysis:
        """What documents hold: languages, phrases, duplicates, clusters; the options are fields of
        `AnalyseRequest`.

        for cluster in Rig().analyse("papers", output="papers.html").clustering.clusters:
            print(cluster.name, len(cluster.members))
        """
        from anyrig.app import analyse

        request = self.request(analyse.AnalyseRequest, files=files, **options)
        with self.report_to(on_event) as report:
            return analyse.analyse(self, request, report)

    def summarise(
        self,
        files: str | Path | Sequence[str | Path] = (),
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[SummariseKeywords],
    ) -> list[FileSummary]:
        """Summaries of files, or of `texts`; the options are fields of `SummariseRequest`.

        for one in Rig().summarise("report.pdf", sentences=3):
            print(one.file, one.summaries[0].summary.text)
        """
        from anyrig.app import summarise

        request = self.request(summarise.SummariseRequest, files=files, **options)
        with self.report_to(on_event) as report:
            return list(summarise.summarise(self, request, report))

    def devices(self, **options: Unpack[DevicesKeywords]) -> DeviceList:
        """Every device of this machine, and the one that would be used.

        for device in Rig().devices().machine.devices: print(device.name, device.usable)
        """
        from anyrig.app.compute import DeviceOptions
        from anyrig.app.devices import list_devices

        return list_devices(self, self.request(DeviceOptions, **options))

    def use(self, device: str, **options: Unpack[UseKeywords]) -> SavedDevice:
        """Save the device to use from now on.

        Rig().use("cuda:1")
        """
        from anyrig.app.compute import DeviceOptions
        from anyrig.app.devices import use_device

        return use_device(self, self.request(DeviceOptions, device=device, **options))

    def diagnose(
        self, *, on_event: OnEvent | None = None, **options: Unpack[DiagnoseKeywords]
    ) -> Diagnosis:
        """Check the machine, with a real kernel on every device; `DoctorRequest` has the options.

        for finding in Rig().diagnose().findings: print(finding.state, finding.message)
        """
        from anyrig.app import devices

        request = self.request(devices.DoctorRequest, **options)
        with self.report_to(on_event) as report:
            return devices.diagnose(self, request, report)

    def bench(
        self, *, on_event: OnEvent | None = None, **options: Unpack[BenchKeywords]
    ) -> BenchReport:
        """Measure devices and save the results; the options are fields of `BenchRequest`.

        Rig().bench(device="cpu", quick=True).devices
        """
        from anyrig.app import bench

        request = self.request(bench.BenchRequest, **options)
        with self.report_to(on_event) as report:
            return bench.bench(self, request, report)

    def profile(
        self,
        what: str = "transformer",
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[ProfileKeywords],
    ) -> BatchSizeProfile:
        """Memory and speed of a model by batch size; the options are fields of `ProfileRequest`.

        Rig().profile("model.onnx", most=64).sizes.batch_size
        """
        from anyrig.app import profiling

        request = self.request(profiling.ProfileRequest, what=what, **options)
        with self.report_to(on_event) as report:
            return profiling.profile(self, request, report)

    def train(
        self,
        file: str | Path | None = None,
        *,
        on_event: OnEvent | None = None,
        **options: Unpack[TrainKeywords],
    ) -> TrainingResult:
        """Train a model as a TOML file says; the options are fields of `TrainingRequest`.

        Rig().train("language.toml", steps=500, set={"train.batch": 64}).model
        """
        from anyrig.app import training

        request = self.request(training.TrainingRequest, file=file, **options)
        with self.report_to(on_event) as report:
            return training.train(self, request, report)

    def runs(self) -> list[RegisteredRun]:
        """The training runs that were started on this machine, the oldest first.

        for run in Rig().runs(): print(run.folder, run.state.status, run.state.loss)
        """
        from anyrig.training.runs import list_runs

        return list_runs(self.folders.runs)


class _EventReporter:
    """Passes events on; a warning only if it is not among the last that were passed on."""

    def __init__(self, on_event: OnEvent) -> None:
        self.on_event = on_event
        self._warned: dict[str, None] = {}

    def report(self, event: Event) -> None:
        from anyrig.events import WarningEvent

        if isinstance(event, WarningEvent):
            if event.message in self._warned:
                return
            self._warned[event.message] = None
            if len(self._warned) > _MAX_REMEMBERED_WARNINGS:
                del self._warned[next(iter(self._warned))]
        self.on_event(event)


_current_reporter: ContextVar[tuple[Rig, _EventReporter] | None] = ContextVar(
    "anyrig_reporter", default=None
)


def log_event(event: Event) -> None:
    """Log warnings and notices."""
    from anyrig.events import NoticeEvent, WarningEvent

    if isinstance(event, WarningEvent):
        log.warning("%s", event.message)
    elif isinstance(event, NoticeEvent):
        log.info("%s", event.message)
