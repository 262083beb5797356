"""Recordings: opened, resampled, and cut in pauses."""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from anyrig.audio import SPEECH_RATE
from anyrig.audio.decode import open_audio
from anyrig.audio.encode import open_encoder
from anyrig.audio.resample import Resampler, resample
from anyrig.audio.samples import Samples
from anyrig.audio.tags import ChapterMark
from anyrig.errors import InvalidInputError
from tests.speech.takes import RATE as VOICE_RATE
from tests.speech.takes import sine

SECONDS = 6.0


def tone(rate: int, hertz: float = 440.0, seconds: float = SECONDS) -> Samples:
    time = np.arange(round(seconds * rate)) / rate
    return (0.4 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


def heard(path: Path) -> Samples:
    with open_audio(path) as sound:
        return np.concatenate(list(sound.blocks()))


def strength(samples: Samples, hertz: float) -> float:
    """How strong a tone is in the middle of a recording."""
    part = samples[SPEECH_RATE : 2 * SPEECH_RATE]
    time = np.arange(len(part)) / SPEECH_RATE
    return float(2 * abs(np.mean(part * np.exp(-2j * np.pi * hertz * time))))


def write_av(path: Path, codec: str, samples: Samples, rate: int, begin_s: float = 0.0) -> None:
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=rate)
        assert isinstance(stream, av.AudioStream)
        stream.layout = "mono"
        for at in range(0, len(samples), 960):
            part = samples[None, at : at + 960]
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(part), "fltp", "mono")
            frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
            frame.pts = at + round(begin_s * rate)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


@pytest.mark.parametrize("ending", ["wav", "flac", "mp3", "ogg", "opus", "aiff"])
def test_each_format_gives_the_same_sound(ending: str, tmp_path: Path) -> None:
    rate = 48000 if ending == "opus" else 44100
    both = np.stack([tone(rate), tone(rate)], axis=1)
    path = tmp_path / f"a.{ending}"
    subtype = {"opus": "OPUS"}.get(ending)
    soundfile.write(path, both, rate, subtype=subtype, format="OGG" if ending == "opus" else None)
    got = heard(path)
    assert abs(len(got) / SPEECH_RATE - SECONDS) < 0.1
    assert strength(got, 440) == pytest.approx(0.4, abs=0.03)
    with open_audio(path) as sound:
        assert sound.duration_s == pytest.approx(SECONDS, abs=0.1)


@pytest.mark.parametrize(("ending", "codec"), [("m4a", "aac"), ("webm", "libopus"), ("mp4", "aac")])
def test_what_pyav_alone_opens(ending: str, codec: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    write_av(path, codec, tone(48000), 48000)
    got = heard(path)
    assert abs(len(got) / SPEECH_RATE - SECONDS) < 0.15
    assert strength(got, 440) == pytest.approx(0.4, abs=0.03)


def test_blocks_are_small(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.flac", tone(16000, seconds=60), 16000)
    with open_audio(tmp_path / "long.flac") as sound:
        sizes = [len(block) for block in sound.blocks()]
    assert sum(sizes) == 60 * SPEECH_RATE
    assert max(sizes) <= 6 * SPEECH_RATE


def test_samples_are_sane(tmp_path: Path) -> None:
    wild = tone(16000)
    wild[100:200] = np.nan
    wild[300:400] = np.inf
    soundfile.write(tmp_path / "wild.wav", wild, 16000, subtype="FLOAT")
    got = heard(tmp_path / "wild.wav")
    assert np.isfinite(got).all()
    assert np.abs(got).max() <= 1.0


@pytest.mark.parametrize(
    "content",
    [b"", b"not a sound at all, " * 50, b"RIFF\x00\x00\x00\x00WAVEfmt ", b"\x00" * 5000,
     b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n/etc/passwd\n#EXT-X-ENDLIST\n",
     b"ffconcat version 1.0\nfile /etc/passwd\n", b"%PDF-1.7\n"],
)  # fmt: skip
def test_what_is_no_sound_is_one_clear_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.mp3"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as caught, open_audio(path) as sound:
        list(sound.blocks())
    assert "bad.mp3" in caught.value.message
    assert caught.value.hint


def test_a_film_without_sound_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mute.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=10)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = 32, 32
        for _ in range(5):
            out.mux(stream.encode(av.VideoFrame(32, 32, "yuv420p")))
        out.mux(stream.encode(None))
    with pytest.raises(InvalidInputError, match="no audio stream"):
        open_audio(path)


def test_a_file_that_breaks_off_is_heard_as_far_as_it_goes(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", tone(16000, seconds=30), 16000)
    data = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "half.flac").write_bytes(data[: len(data) // 2])
    got = heard(tmp_path / "half.flac")
    assert 5 * SPEECH_RATE < len(got) < 25 * SPEECH_RATE


@pytest.mark.parametrize("ending", ["wav", "rf64", "flac", "aiff", "au"])
def test_a_file_that_holds_less_than_its_header_says_is_told(ending: str, tmp_path: Path) -> None:
    """Decoders take what is there and call it the whole."""
    whole = tmp_path / f"whole.{ending}"
    soundfile.write(whole, tone(16000, seconds=30), 16000, format=ending.upper())
    data = whole.read_bytes()
    (tmp_path / "half").write_bytes(data[: len(data) // 2])
    for source in (tmp_path / "half", io.BytesIO(data[: len(data) // 2])):
        with open_audio(source, "half") as sound:
            num_samples = sum(map(len, sound.blocks()))
            assert 9 * SPEECH_RATE < num_samples < 16 * SPEECH_RATE
            assert len(sound.warnings) == 1
            assert "half" in sound.warnings[0]
        if ending in ("wav", "rf64"):
            assert sound.warnings == ["half is truncated: 15.0 s of the 30.0 s in its header"]
    with open_audio(whole) as sound:
        assert sum(map(len, sound.blocks())) == 30 * SPEECH_RATE
        assert not sound.warnings


@pytest.mark.parametrize("size", [0, 0x7FFF_F000, 0x7FFF_FFFF, 0xFFFF_FFDB, 0xFFFF_FFFF])
def test_a_wav_that_was_sent_as_it_was_recorded_is_whole(size: int, tmp_path: Path) -> None:
    """Its header was written before anybody knew how long it would be."""
    soundfile.write(tmp_path / "a.wav", tone(16000), 16000)
    data = bytearray((tmp_path / "a.wav").read_bytes())
    at = data.index(b"data") + 4
    data[at : at + 4] = size.to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(data)
    with open_audio(tmp_path / "a.wav") as sound:
        assert sum(map(len, sound.blocks())) == round(SECONDS * SPEECH_RATE)
        assert not sound.warnings


def test_sound_that_begins_late_keeps_its_time(tmp_path: Path) -> None:
    path = tmp_path / "late.mkv"
    with av.open(str(path), "w") as out:
        picture = out.add_stream("mpeg4", rate=10)
        assert isinstance(picture, av.VideoStream)
        picture.width, picture.height = 32, 32
        voice = out.add_stream("flac", rate=16000)
        assert isinstance(voice, av.AudioStream)
        voice.layout = "mono"
        for number in range(40):
            image = av.VideoFrame(32, 32, "yuv420p")
            image.pts, image.time_base = number, Fraction(1, 10)
            out.mux(picture.encode(image))
        samples = (tone(16000, seconds=2) * 32767).astype(np.int16)[None, :]
        for at in range(0, samples.shape[1], 4000):
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(samples[:, at : at + 4000]), "s16", "mono"
            )
            frame.sample_rate, frame.time_base = 16000, Fraction(1, 16000)
            frame.pts = at + 2 * 16000
            out.mux(voice.encode(frame))
        out.mux(picture.encode(None))
        out.mux(voice.encode(None))
    got = heard(path)
    first = int(np.argmax(np.abs(got) > 0.05))
    assert first / SPEECH_RATE == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("rate", [1, 2, 100, 1999, 1_000_000, 2**31 - 1])
def test_a_sample_rate_that_no_recording_has_is_refused(rate: int, tmp_path: Path) -> None:
    data = b"\x00\x01" * 16_000
    head = struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16)
    size = struct.pack("<I", len(data))
    path = tmp_path / "odd.wav"
    path.write_bytes(b"RIFF" + size + b"WAVEfmt " + head + b"data" + size + data)
    with pytest.raises(InvalidInputError, match="sample rate") as caught, open_audio(path):
        pass
    assert "odd.wav" in caught.value.message
    assert caught.value.hint


def test_a_small_file_does_not_become_hours_of_sound(tmp_path: Path) -> None:
    """Each piece is said to come an hour after the last: the holes would be filled with silence."""
    path = tmp_path / "holes.mka"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("pcm_s16le", rate=8000)
        assert isinstance(stream, av.AudioStream)
        stream.layout = "mono"
        for number in range(20):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 80), np.int16), "s16", "mono")
            frame.sample_rate, frame.time_base = 8000, Fraction(1, 8000)
            frame.pts = number * 3000 * 8000
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    with open_audio(path) as sound:
        assert sound.duration_s is None
        with pytest.raises(InvalidInputError, match="of audio or more in"):
            for _ in sound.blocks():
                pass


@pytest.mark.parametrize("channels", [3, 6, 8])
def test_recordings_of_many_channels_are_averaged(tmp_path: Path, channels: int) -> None:
    file = tmp_path / "many.flac"
    soundfile.write(file, np.repeat(tone(192_000)[:, None], channels, axis=1), 192_000)
    samples = heard(file)
    assert len(samples) == pytest.approx(SECONDS * SPEECH_RATE, abs=SPEECH_RATE // 50)
    assert strength(samples, 440.0) == pytest.approx(0.4, abs=0.02)


def sweep() -> Samples:
    """Never twice the same, so a shift by a few samples shows."""
    time = np.arange(20 * VOICE_RATE) / VOICE_RATE
    return (0.4 * np.sin(2 * np.pi * (200 + 40 * time) * time)).astype(np.float32)


@pytest.mark.parametrize("ending", ["flac", "mp3", "m4b", "opus"])
def test_stretches_are_read_where_they_were_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"book.{ending}"
    marks = [ChapterMark("One", 0, 100_001), ChapterMark("Two", 100_001, 480_000)]
    with open_encoder(path, rate=VOICE_RATE, chapters=marks, tags={"title": "A"}) as out:
        out.write(sweep())
    with open_audio(path) as file:
        rate, whole = file.rate, np.concatenate(list(file.read()))
        assert abs(len(whole) - 20 * rate) <= rate // 20, "a frame at most"
        assert file.title == "A"
        assert file.chapters == (tuple(marks) if ending == "m4b" else ())
        spans = [(3 * rate, 3 * rate + 999), (11 * rate, 12 * rate), (12 * rate - 50, 13 * rate)]
        for (start, end), part in zip(spans, file.read_spans(spans), strict=True):
            assert len(part) == end - start
            assert np.corrcoef(part, whole[start:end])[0, 1] > 0.99
            if rate == VOICE_RATE:
                assert np.corrcoef(part, sweep()[start:end])[0, 1] > 0.95
        again = np.concatenate(list(file.read(rate, 2 * rate)))  # backwards
        assert np.corrcoef(again, whole[rate : 2 * rate])[0, 1] > 0.99


CHANGES = [(24000, 48000), (22050, 24000), (16000, 24000), (48000, 16000), (24000, 44100)]


@pytest.mark.parametrize(("source", "target"), CHANGES)
@pytest.mark.parametrize("hertz", [100.0, 1000.0, 5000.0])
def test_a_tone_stays_that_tone(source: int, target: int, hertz: float) -> None:
    made = resample(sine(0.5, hertz, source), source, target)
    wanted = sine(0.5, hertz, target)
    assert len(made) == len(wanted)
    assert made.dtype == np.float32
    inside = slice(200, -200)
    assert float(np.abs(made[inside] - wanted[inside]).max()) < 1e-4


def test_what_the_lower_rate_cannot_hold_is_gone() -> None:
    made = resample(sine(0.5, 9500.0, 48000), 48000, 16000)
    assert float(np.abs(made[200:-200]).max()) < 1e-4


@pytest.mark.parametrize(("source", "target"), [*CHANGES, (24000, 23999)])
def test_a_stream_gives_what_the_whole_gives(source: int, target: int) -> None:
    random = np.random.default_rng(3)
    sound = random.standard_normal(6000).astype(np.float32)
    change, parts, at = Resampler(source, target), [], 0
    while at < len(sound):
        size = int(random.integers(0, 900))
        parts.append(change.feed(sound[at : at + size]))
        at += size
    parts.append(change.finish())
    made, whole = np.concatenate(parts), resample(sound, source, target)
    assert len(made) == len(whole) == -(-len(sound) * target // source)
    assert float(np.abs(made - whole).max()) < 1e-5
