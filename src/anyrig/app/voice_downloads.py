"""The voice of a language: downloaded into anyrig's own folder, tried, removed again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.engines import VoiceOffer, VoiceOptions, find_offer, find_weights, list_offers
from anyrig.app.speech import SpeechRequest, speak
from anyrig.app.voices import SENTENCES
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.events import NoticeEvent, OnEvent, ProgressEvent
from anyrig.options import Request, option
from anyrig.results import in_json
from anyrig.speech import engines
from anyrig.speech.language import name_language
from anyrig.text.language_names import language_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyrig.app.rig import Rig


@dataclass(frozen=True, kw_only=True)
class VoiceDownloadRequest(Request):
    """With get."""

    language: str = option(help="the language", normalize=language_code, flag=False)
    source: Path | None = option(
        None, "a folder with the files, where there is no network", flag=False
    )


@dataclass(frozen=True)
class InstalledVoice:
    """The voices of a language, after one of them has spoken."""

    language: str
    engine: str
    voices: tuple[str, ...]
    folder: Path
    licence: str
    downloaded_bytes: int
    """0 if all was there."""
    sentence: str
    """What the first of them said."""
    audio_s: float = field(metadata=in_json(digits=2))
    next_step: str


def download_voice(rig: Rig, request: VoiceDownloadRequest, on_event: OnEvent) -> InstalledVoice:
    """Get all that a language needs, and have its first voice say a sentence.

    What an interrupted call has downloaded is kept, and used by the next one.
    """
    offer = _require_offer(rig, request.language)
    if offer.size_bytes:
        on_event(NoticeEvent(f"Getting {offer.describe()} to {offer.folder}"))
        _install(rig, offer, request.source, on_event)
        rig.engine_weights.clear()
    voices = _list_voices(rig, offer)
    sentence = SENTENCES[offer.language]
    on_event(ProgressEvent("trying the voice", detail=sentence))
    made = speak(
        rig,
        rig.request(
            SpeechRequest, text=sentence, engine=offer.engine, voice=voices[0],
            language=offer.language, cluster="no", fresh=True,
        ),
        on_event,
    )  # fmt: skip
    with made:
        audio_s = made.audio_s
    return InstalledVoice(
        offer.language, offer.engine, voices, offer.folder, offer.licence, offer.size_bytes,
        sentence, audio_s, f'anyrig speak "{sentence}"{_name_engine(offer)}',
    )  # fmt: skip


def _name_engine(offer: VoiceOffer) -> str:
    """Without it the default install's voice would speak, where there is one."""
    return f" --engine {offer.engine}" if offer.language == "en" else ""


def _require_offer(rig: Rig, language: str) -> VoiceOffer:
    offer = find_offer(rig, language)
    if offer is not None:
        return offer
    known = ", ".join(f"{code} ({name_language(code)})" for code in list_offers())
    raise InvalidInputError(
        f"no voice for {name_language(language)} can be downloaded",
        hint=f"There are voices for {known}. `anyrig engines` lists engines for other languages.",
    )


def _install(rig: Rig, offer: VoiceOffer, source: Path | None, on_event: OnEvent) -> None:
    from anyrig.app.engine_setup import install_kokoro

    install_kokoro(rig, offer.folder, [offer.language], source, on_event)


def _list_voices(rig: Rig, offer: VoiceOffer) -> tuple[str, ...]:
    found = find_weights(rig, VoiceOptions(), offer.engine, engines.engine_class(offer.engine))
    voices = [voice.name for voice in found.voices if voice.language == offer.language]
    return tuple(voices)


def is_downloaded(rig: Rig, language: str) -> bool:
    """Whether nothing of the voices of a language is missing."""
    offer = find_offer(rig, language)
    return offer is not None and not offer.size_bytes


def remove_voice(rig: Rig, language: str, agree: Callable[[str], bool]) -> list[Path]:
    """Delete the voices of a language, and with the last language all that they need."""
    from anyrig.speech.engines import kokoro_voices

    offer = _require_offer(rig, language_code(language))
    files = [
        p for p in kokoro_voices.list_pack_files(offer.folder, [offer.language]) if p.is_file()
    ]
    downloads = offer.folder / kokoro_voices.DOWNLOADS
    if not files and not downloads.is_dir():
        raise InvalidInputError(
            f"no voice for {name_language(offer.language)} was downloaded",
            hint="`anyrig voices` lists the voices that are installed.",
        )
    if not agree(f"To be removed: the {name_language(offer.language)} voices in {offer.folder}."):
        raise InvalidInputError("not agreed", hint=Message("{yes} agrees.", yes=OptionRef("yes")))
    removed = kokoro_voices.remove_packs(offer.folder, offer.language)
    rig.engine_weights.clear()
    return removed
