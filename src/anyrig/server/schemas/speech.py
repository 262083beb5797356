"""What speech takes and tells over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from anyrig.server.schemas import PlainName

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
MEDIA_TYPES: dict[Format, str] = {
    "mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac",
    "wav": "audio/wav", "pcm": "audio/pcm",
}  # fmt: skip
LANGUAGE = r"^(auto|[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*)$"
VoiceName = Annotated[PlainName, Field(max_length=300)]
_EXAMPLE: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": "The kettle is on.",
            "response_format": "mp3", "speed": 1.0}  # fmt: skip


class VoiceId(BaseModel):
    """A voice as newer clients name it."""

    id: VoiceName = Field(examples=["heart"])


class SpeechRequest(BaseModel):
    """A text to be spoken. Other fields are taken and named in the header X-Anyrig-Ignored."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_EXAMPLE]})

    input: str = Field(min_length=1, description="The text, or SSML that begins with <speak.")
    model: PlainName = Field(
        "", max_length=200, description="An engine of GET /v1/models; OpenAI's are the default one."
    )
    voice: VoiceName | VoiceId = Field(
        "", description="Of GET /config; `a:2+b` blends two; OpenAI's names are the default voice.",
        examples=["alloy"],
    )  # fmt: skip
    response_format: Format = Field(
        "mp3", description="All are sent while they are made; pcm is 16 bit, mono, 24 kHz."
    )
    speed: float = Field(1.0, ge=0.25, le=4.0)
    stream_format: Literal["audio", "sse"] = Field(
        "audio", description="sse: events `speech.audio.delta` in base64, then `speech.audio.done`."
    )
    instructions: str | None = Field(None, description="Has no effect; a header says so.")
    language: str | None = Field(
        None, pattern=LANGUAGE, description="Found out when not given.", examples=["en"]
    )
    engine: PlainName | None = Field(None, max_length=200, description="As `model`, and before it.")
    lane: Literal["live", "bulk"] = Field(
        "live", description="bulk where nobody waits: those who listen come first."
    )

    @property
    def voice_name(self) -> str:
        """The voice that is wanted."""
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice

    @property
    def ignored(self) -> list[str]:
        """Fields that have no effect."""
        found = ["instructions"] if self.instructions else []
        return found + [name for name in (self.model_extra or {}) if name.isidentifier()][:20]


class EngineRow(BaseModel):
    """An engine as it stands on this machine."""

    name: str
    summary: str
    languages: list[str]
    ready: bool
    why: str | None = Field(None, description="What it lacks, and how to get it.")
    licence: str


class VoiceRow(BaseModel):
    """A voice that is here."""

    name: str
    engine: str
    language: str
    gender: str | None = None
    title: str | None = None


class DeviceShort(BaseModel):
    """A device, in short; GET /devices tells more."""

    id: str
    name: str
    kind: str
    usable: bool
    chosen: bool


class Config(BaseModel):
    """What a page needs to know to begin; the first two as VibeVoice's demo has them."""

    voices: list[str]
    default_voice: str
    engines: list[EngineRow]
    devices: list[DeviceShort]
    details: list[VoiceRow]


class LexiconText(BaseModel):
    """How words are pronounced, as TOML."""

    text: str = Field(examples=['[[say]]\nword = "Kokoro"\nsay = "ko-KO-ro"\n'])


class LexiconTold(LexiconText):
    """The lexicon as it is now."""

    entries: int = Field(description="How many words and patterns it has.")


def log_frame(event: str, timestamp: str, **data: Any) -> dict[str, Any]:
    """A text frame of WS /stream, as clients of VibeVoice's demo read them."""
    return {"type": "log", "event": event, "data": data, "timestamp": timestamp}
