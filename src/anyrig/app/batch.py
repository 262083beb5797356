"""Many texts, an audio file for each; a run that was interrupted continues where it stopped.

A file that exists and was made from the same text, voice and options is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.cache import open_cache
from anyrig.app.engines import (
    check_voice,
    choose_engine,
    detect_language,
    resolve_voice,
    suggest_engines,
)
from anyrig.app.files import normalize_format
from anyrig.app.speech import (
    AudioOptions,
    SynthesisOptions,
    load_lexicon,
    open_synthesizer,
    prepare_script,
    resolve_format,
    warn_of_seed,
)
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    OptionRef,
    UnspeakableTextError,
    UnsupportedLanguageError,
)
from anyrig.events import OnEvent, ProgressEvent, warn_some
from anyrig.options import option
from anyrig.speech.batch import (
    BatchItem,
    BatchLine,
    FailedLine,
    read_lines,
    read_manifest,
    select_lines,
    speak_items,
)
from anyrig.speech.choose import EngineChoice

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.speech.segment import Script


@dataclass(frozen=True, kw_only=True)
class BatchRequest(SynthesisOptions, AudioOptions):
    """Many texts."""

    file: Path = option(help="a file of lines, or JSONL", metavar="FILE", upload=True, flag=False)
    output: Path | None = option(
        None, "folder for the audio files; the file's name without its suffix if not given",
        http=False, flag=False,
    )  # fmt: skip
    format: str = option(
        "wav", "wav, flac, mp3, opus, m4a, aac or pcm", flag=False, normalize=normalize_format
    )
    ssml: bool = option(False, "the texts are SSML; detected where one begins with <speak")
    only: str = option("", "make these again, as 3,7 or 3-5 or an id", metavar="LIST", http=False)


@dataclass
class BatchResult:
    """What was made, what existed, and what failed."""

    folder: Path
    engine: EngineChoice
    items: list[BatchItem] = field(default_factory=list)
    """Lines that had, or have, to be spoken."""
    num_existing: int = 0
    num_made: int = 0
    audio_s: float = 0.0
    failed: list[FailedLine] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder), "engine": self.engine.name, "made": self.num_made,
            "left": self.num_existing, "failed": [one.line.stem for one in self.failed],
            "audio_s": round(self.audio_s, 3),
        }  # fmt: skip


def plan_batch(rig: Rig, request: BatchRequest, on_event: OnEvent) -> BatchResult:
    """Decide which lines have to be spoken."""
    from anyrig.speech.synthesis import vary_script

    lines = read_lines(request.file)
    folder = request.output or Path(request.file.stem)
    format = resolve_format(request.format)
    only = select_lines(lines, request.only) if request.only else set()
    texts = [line.text for line in lines if not line.language] or [line.text for line in lines]
    # Of the list as a whole: a line of two words says little.
    language = detect_language(" ".join(texts), request)
    choice = choose_engine(rig, request, language)
    _check_common_options(rig, request, choice, language)
    warn_of_seed(request, choice, on_event)
    on_event(ProgressEvent("checking existing files"))
    known = read_manifest(folder)
    result = BatchResult(folder, choice)
    for line in lines:
        if only and line.number not in only:
            continue
        path = folder / f"{line.stem}.{format}"
        last = known.get(path.name, {})
        # The seed of the existing take, unless the file requests another one.
        requested = last.get("requested_seed", last.get("asked"))  # the second is the name of 0.1.0
        seed = int(last["seed"]) if requested == line.seed else line.seed
        seeded = replace(line, seed=seed + (bool(only) and not request.seed))
        try:
            script = _prepare_line(rig, request, choice, seeded, language)
            script = vary_script(script, seeded.seed - line.seed, choice.info)
        except _LineError as error:
            result.failed.append(FailedLine(seeded, error.message, error.hint))
            continue
        key = _make_key(request, choice, script, format)
        if not only and path.exists() and last.get("key") == key:
            result.num_existing += 1
        else:
            again = bool(only) or request.fresh
            result.items.append(BatchItem(seeded, script, key, path, again, line.seed))
    warnings = [f"{one.path.name}: {text}" for one in result.items for text in one.script.warnings]
    warn_some(on_event, warnings, "of this kind")
    return result


def speak_lines(rig: Rig, request: BatchRequest, on_event: OnEvent) -> BatchResult:
    """Speak every line whose file does not exist yet."""
    result = plan_batch(rig, request, on_event)
    if not result.items:
        return result
    if result.folder.exists() and not result.folder.is_dir():
        raise InvalidInputError(
            f"{result.folder} is a file",
            hint=Message("{output} must name a folder.", output=OptionRef("output")),
        )
    result.folder.mkdir(parents=True, exist_ok=True)
    num_characters = sum(len(item.line.text) for item in result.items)
    with (
        open_cache(rig) as cache,
        open_synthesizer(rig, request, result.engine, num_characters, cache) as synthesizer,
    ):
        for made in speak_items(synthesizer, result.items, request.loudness, on_event):
            if isinstance(made, FailedLine):
                result.failed.append(made)
            else:
                result.num_made += 1
                result.audio_s += made
    return result


# -- planning --------------------------------------------------------------------------------------


class _LineError(UnspeakableTextError):
    """A text that cannot be spoken: its own file fails, and no other."""


def _check_common_options(
    rig: Rig, request: BatchRequest, choice: EngineChoice, language: str
) -> None:
    """What is wrong with the options of all lines is one error, not one for each line."""
    from anyrig.speech.language import build_language_error, match_language

    resolve_voice(rig, request, choice)
    load_lexicon(rig, request)
    spoken = choice.weights.languages
    if request.language != "auto" and not match_language(language, spoken):
        error = build_language_error(language, spoken)
        raise suggest_engines(rig, error, request, choice, text_language=language)


def _prepare_line(
    rig: Rig, request: BatchRequest, choice: EngineChoice, line: BatchLine, language: str
) -> Script:
    from anyrig.speech.language import PARAGRAPH_WORDS, excerpt, match_language, name_language
    from anyrig.text.language import detect, num_words

    if line.voice:
        try:
            check_voice(line.voice, choice)
        except AnyrigError as error:
            error.message = Message("line {stem}: {problem}", stem=line.stem, problem=error.message)
            raise
    given = {
        "voice": line.voice, "language": line.language, "rate": line.rate,
        "seed": line.seed + request.seed,
    }  # fmt: skip
    more: dict[str, Any] = {name: value for name, value in given.items() if value}
    try:
        return prepare_script(rig, request, choice, line.text, default_language=language, **more)
    except InvalidInputError as error:
        # A text that is too short to be sure of its language is read in that of the list.
        is_guess = isinstance(error.__cause__, UnsupportedLanguageError) and not line.language
        is_guess = is_guess and num_words(line.text) < PARAGRAPH_WORDS
        if not is_guess or not match_language(language, choice.weights.languages):
            raise _LineError(error.message, hint=error.hint) from error
        script = prepare_script(rig, request, choice, line.text, **more, language=language)
        seems = name_language(detect(line.text, default=language).language)
        warning = f"{excerpt(line.text)!r} looks like {seems}; read as {name_language(language)}"
        return replace(script, warnings=(warning, *script.warnings))


def _make_key(request: BatchRequest, choice: EngineChoice, script: Script, format: str) -> str:
    from anyrig.storage.keys import make_key

    lines = [(segment.utterance, segment) for segment in script.segments]
    named = {line.voice for line, _ in lines}
    voices = [voice for voice in choice.weights.voices if "" in named or voice.name in named]
    return make_key(
        lines=[
            [line.text, line.language, line.voice, line.rate, line.seed, segment.pause_before_s,
             segment.pause_after_s] for line, segment in lines
        ],
        engine=choice.name, version=choice.weights.version, weights=choice.weights.fingerprint,
        options=choice.options, format=format, loudness=request.loudness,
        # Another recording under the same name is another voice.
        recordings=[voice.digest for voice in voices if voice.digest],
    )  # fmt: skip
