"""What is wrong with the sound of a finished book, told from what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from anyrig.audiobooks.check_report import Finding, FindingKind
from anyrig.speech.quality import expect_duration
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.audiobooks.check_sound import Levels, Sound
    from anyrig.audiobooks.listen import Finished, Track
    from anyrig.audiobooks.plan import Part

_PAUSE_S = 0.25  # shorter ones are part of speaking
_TELLING = 400  # characters from which on a chapter's pace says something of the book's
_LONG_S = 30.0  # shorter chapters have a loudness of their own
_SLACK, _SPREAD = 0.12, 4.0
_MARGIN_S = 1.0  # beside the pauses that were planned


class Checked(NamedTuple):
    """A chapter of the file with what should be in it."""

    track: Track
    sound: Sound
    parts: tuple[Part, ...]
    """One as a rule; all of the book in a file without chapters; none where nobody knows."""

    @property
    def number(self) -> int:
        """In the book's list of chapters; 0 where it is not one."""
        return self.parts[0].number if len(self.parts) == 1 else 0

    @property
    def characters(self) -> int:
        """That should be spoken in it."""
        return sum(len(s.utterance.text) for part in self.parts for s in part.script.segments)

    @property
    def speech_s(self) -> float:
        """Its length without pauses."""
        quiet = sum(end - start for start, end in self.sound.quiet if end - start >= _PAUSE_S)
        return max(0.0, self.sound.duration_s - quiet)

    def finding(
        self, kind: FindingKind, said: str, start_s: float | None = None, end_s: float | None = None
    ) -> Finding:
        """Something found in it; times are its own."""
        offset = self.track.offset_s
        return Finding(
            kind, said, self.number, self.track.title,
            None if start_s is None else offset + start_s,
            None if end_s is None else offset + end_s,
            start_s,
        )  # fmt: skip


def all_findings(chapters: Sequence[Checked], whole: Sound, levels: Levels) -> Iterator[Finding]:
    """Everything that is wrong with the sound."""
    yield from _whole(whole, levels)
    yield from paces(chapters)
    for chapter in chapters:
        yield from _silences(chapter, levels)
        yield from _defects(chapter, levels)
        yield from _by_chapter(chapter, whole, levels)


def notes(book: Finished, levels: Levels) -> Iterator[str]:
    """What a shop would have otherwise."""
    if levels.format is None:
        return
    codec, rate, bitrate = levels.format
    if (book.codec, book.rate) != (codec, rate) or book.bitrate < 0.97 * bitrate:
        yield (
            f"{levels.name} takes {codec} of {rate / 1000:g} kHz and {bitrate // 1000} kbit/s, a "
            f"file for each chapter; this is {book.codec} of {book.rate / 1000:g} kHz and "
            f"{book.bitrate // 1000} kbit/s"
        )


def paces(chapters: Sequence[Checked]) -> Iterator[Finding]:
    """Chapters that are much too short or too long for their text."""
    known = [one for one in chapters if one.characters]
    rates = {id(one): one.speech_s / one.characters for one in known}
    telling = [rates[id(one)] for one in known if one.characters >= _TELLING]
    usual = median(telling) if len(telling) >= 3 else None
    spread = median(abs(rate / usual - 1.0) for rate in telling) if usual else 0.0
    for one in known:
        rate = rates[id(one)]
        slack = max(_SLACK + 3.0 / math.sqrt(one.characters), _SPREAD * 1.48 * spread)
        if usual and abs(rate / usual - 1.0) > slack:
            yield one.finding(
                "duration",
                f"{1000 * rate:.1f} ms of speech a character, {rate / usual - 1.0:+.0%} beside "
                f"the book's {1000 * usual:.1f}: {_guess(rate < usual)}",
            )
        else:
            yield from _possible(one)


def _possible(one: Checked) -> Iterator[Finding]:
    """Faster or slower than anybody speaks: tells also where there is nothing to compare with."""
    told = [expect_duration(s.utterance) for part in one.parts for s in part.script.segments]
    least, most = sum(x.min_s for x in told), sum(x.max_s for x in told)
    if not 0.9 * least <= one.speech_s <= most + _MARGIN_S:
        short = one.speech_s < least
        yield one.finding(
            "duration",
            f"{one.speech_s:.1f} s of speech for what takes {least:.1f} to {most:.1f} s: "
            f"{_guess(short)}",
        )


def _guess(short: bool) -> str:
    return "something may be missing" if short else "something may be in it twice"


def _whole(sound: Sound, levels: Levels) -> Iterator[Finding]:
    if levels.by_chapter:
        return
    if levels.lufs is not None:
        yield from _range("loudness", "loudness", sound.lufs, levels.lufs, "LUFS")
    if levels.rms_db is not None:
        yield from _range("loudness", "RMS", sound.rms_db, levels.rms_db, "dB")


def _range(
    kind: FindingKind, what: str, value: float, wanted: tuple[float, float], unit: str
) -> Iterator[Finding]:
    low, high = wanted
    # Meters differ by a tenth.
    if not low <= round(value, 1) <= high:
        yield Finding(kind, f"its {what} is {value:.1f} {unit}, not {low:g} to {high:g}")


def _by_chapter(one: Checked, whole: Sound, levels: Levels) -> Iterator[Finding]:
    sound = one.sound
    for kind, what, value, most, unit in (
        ("peak", "true peak", sound.true_peak_db, levels.true_peak_db, "dBTP"),
        ("peak", "peak", sound.peak_db, levels.peak_db, "dB"),
        ("noise", "noise floor", sound.noise_floor_db, levels.noise_floor_db, "dB RMS"),
    ):
        if most is not None and round(value, 1) > most:
            said = f"its {what} is {value:.1f} {unit}, above {most:g}"
            yield one.finding("noise" if kind == "noise" else "peak", said)
    if levels.by_chapter:
        for what, value, wanted, unit in (
            ("loudness", sound.lufs, levels.lufs, "LUFS"),
            ("RMS", sound.rms_db, levels.rms_db, "dB"),
        ):
            if wanted is not None:
                for found in _range("loudness", what, value, wanted, unit):
                    yield one.finding("loudness", found.said)
    away = sound.lufs - whole.lufs
    if sound.duration_s >= _LONG_S and math.isfinite(away) and abs(away) > levels.drift_lu:
        yield one.finding(
            "loudness",
            f"it is {abs(away):.1f} LU {'louder' if away > 0 else 'softer'} than the book",
        )


def _silences(one: Checked, levels: Levels) -> Iterator[Finding]:
    if not math.isfinite(one.sound.lufs) and one.sound.duration_s > 1.0:
        yield one.finding("silence", "nothing is heard in it", 0.0, one.sound.duration_s)
        return
    planned = [s.pause_before_s + s.pause_after_s for p in one.parts for s in p.script.segments]
    most_s = max(levels.longest_silence_s, max(planned, default=0.0) + _MARGIN_S)
    for start, end in one.sound.quiet:
        if end - start > most_s:
            yield one.finding("silence", f"{end - start:.1f} s of silence", start, end)


def _defects(one: Checked, levels: Levels) -> Iterator[Finding]:
    sound = one.sound
    if len(sound.clipped) >= 3:
        seconds = len(sound.clipped) / 100
        said = f"{seconds:.2f} s are clipped, first here"
        yield one.finding("clipping", said, sound.clipped[0])
    if abs(sound.dc) > levels.most_dc:
        yield one.finding("dc", f"DC offset {sound.dc:+.3f}")
    for start, end in sound.dropouts[:20]:
        said = f"a dropout of {1000 * (end - start):.0f} ms in the middle of speech"
        yield one.finding("dropout", said, start, end)
    if len(sound.dropouts) > 20:
        yield one.finding("dropout", f"{pluralize(len(sound.dropouts) - 20, 'more dropout')}")
