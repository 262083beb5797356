"""What every speech engine must do, as checks that its author can run.

    import pytest
    from anyrig.speech import contract

    @pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
    def test_mine_keeps_the_contract(check, placement):
        check(contract.Subject(Mine, placement))

anyrig's own engines pass the same checks. A check raises AssertionError with what is wrong.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.audio.samples import Samples
from anyrig.backends.process import code_command
from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech.engine import (
    EngineWeights,
    OptionValue,
    SpeechEngine,
    Take,
    Utterance,
    resolve_options,
)

if TYPE_CHECKING:
    from anyrig.placement import Placement

HEAVY = ("torch", "onnxruntime", "transformers", "numpy", "hibari", "kokoro", "soundfile")
"""What finding an engine's weights may not import."""
_SHORT, _LONG = 0, 1
_SAME_TAKE = 0.98
"""Correlation of two takes that sound the same: their noise differs, and nothing else."""
TEXTS = {
    "en": ("Good morning.", "The old keeper walked slowly down the stairs and counted each step."),
    "es": ("Buenos días.", "El viejo farero bajaba despacio la escalera y contaba cada peldaño."),
    "fr": ("Bonjour à tous.", "Le vieux gardien descendait lentement et comptait chaque marche."),
    "de": ("Guten Morgen.", "Der alte Wärter ging langsam hinunter und zählte jede Stufe."),
    "it": ("Buongiorno.", "Il vecchio guardiano scendeva piano le scale e contava ogni gradino."),
}


@dataclass
class Subject:
    """An engine under examination. Takes are cached between checks."""

    engine: type[SpeechEngine]
    placement: Placement
    folder: Path | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, str]] = field(default_factory=lambda: TEXTS)
    """By language: a short text and a longer one."""
    half: tuple[float, float] = (0.35, 0.72)
    """How long a line may be at twice the rate, as a share."""
    _takes: dict[Utterance, Take] = field(default_factory=dict)

    @cached_property
    def weights(self) -> EngineWeights:
        """Its weights."""
        return self.engine.find_weights(self.folder)

    @cached_property
    def loaded(self) -> SpeechEngine:
        """The engine, loaded."""
        options = resolve_options(self.engine.info, self.options)
        return self.engine(self.placement, folder=self.weights.folder, **options)

    def line(self, which: int, **changes: object) -> Utterance:
        """A line of its first language: 0 is short, 1 is longer."""
        language = self.weights.languages[0]
        texts = self.texts.get(language.partition("-")[0], self.texts["en"])
        return replace(Utterance(texts[which], language=language, seed=5), **changes)  # type: ignore[arg-type]

    def take(self, line: Utterance) -> Take:
        """What it says of a line, made once."""
        if line not in self._takes:
            (self._takes[line],) = self.loaded.run([line])
        return self._takes[line]


def check_info(subject: Subject) -> None:
    """Its info is filled in, and its defaults are values it would take."""
    info = subject.engine.info
    assert info.name, "no name"
    assert info.summary, "no summary"
    assert info.code_licence, "no licence of the code"
    assert info.weights_licence, "no licence of the weights"
    assert info.max_chars > 0, "no limit"
    assert subject.engine.name == info.name, "the class and its info have different names"
    defaults = {option.name: option.default for option in info.options}
    assert resolve_options(info, defaults) == defaults, "a default is not one of its own choices"


def check_light_imports(subject: Subject) -> None:
    """Its file and `find` load no framework: `anyrig engines` lists all of them at once."""
    module, name = subject.engine.__module__, subject.engine.__qualname__
    where = repr(str(subject.folder)) if subject.folder else "None"
    program = (
        "import sys; from pathlib import Path; import importlib\n"
        f"sys.path.extend({[path for path in sys.path if path]!r})\n"
        f"engine = getattr(importlib.import_module({module!r}), {name!r})\n"
        f"folder = {where}\n"
        "engine.find_weights(Path(folder) if folder else None)\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))\n"
    )
    done = subprocess.run(
        code_command(program), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"finding failed: {done.stderr[-2000:]}"
    assert not done.stdout.split(), f"finding imports {done.stdout.strip()}"


def check_voices(subject: Subject) -> None:
    """Voices with names of their own, in languages that it says it speaks."""
    found, info = subject.weights, subject.engine.info
    names = [voice.name for voice in found.voices]
    assert names, "no voice"
    assert len(set(names)) == len(names), "two voices of one name"
    assert {voice.engine for voice in found.voices} == {info.name}, "a voice of another engine"
    assert found.version, "no version"
    assert found.fingerprint, "no fingerprint"
    assert found.sample_rate == subject.loaded.sample_rate, "two sample rates"
    if info.languages:
        foreign = set(found.languages) - set(info.languages)
        assert not foreign, f"voices speak {foreign}, which the info does not list"
    assert subject.engine.find_weights(subject.folder) == found, "found differently the second time"


def check_batch_order(subject: Subject) -> None:
    """In order, at its rate, finite, mono, as float32."""
    lines = [subject.line(_LONG), subject.line(_SHORT), subject.line(_LONG, seed=6)]
    takes = subject.loaded.run(lines)
    assert len(takes) == len(lines), f"{len(takes)} takes of {len(lines)} lines"
    for take in takes:
        _check_samples(take, subject.loaded.sample_rate)
    assert takes[1].duration_s < min(takes[0].duration_s, takes[2].duration_s), "out of order"
    if subject.loaded.batch_invariant:  # else the same line alone may differ in its last bits
        subject._takes[lines[0]] = takes[0]


def check_empty_batch(subject: Subject) -> None:
    """No lines, no takes, no error."""
    assert list(subject.loaded.run([])) == []


def check_longer_text(subject: Subject) -> None:
    """A longer text is longer audio."""
    short, long = subject.take(subject.line(_SHORT)), subject.take(subject.line(_LONG))
    assert long.duration_s > 1.5 * short.duration_s, f"{short.duration_s} s, {long.duration_s} s"


def check_rate(subject: Subject) -> None:
    """Twice as fast is about half as long."""
    normal = subject.take(subject.line(_LONG)).duration_s
    share = subject.take(subject.line(_LONG, rate=2.0)).duration_s / normal
    low, high = subject.half
    assert low <= share <= high, f"twice as fast is {share:.2f} as long"


def check_determinism(subject: Subject) -> None:
    """The same line with the same seed is the same samples, whatever came between."""
    line = subject.line(_LONG)
    first = subject.take(line)
    subject.loaded.run([subject.line(_SHORT, seed=9)])
    (again,) = subject.loaded.run([line])
    assert np.array_equal(first.samples, again.samples), "the same line sounds differently"


def check_seed(subject: Subject) -> None:
    """Another seed is a take that can be told from the first, exactly where the info says so."""
    normal, other = subject.take(subject.line(_LONG)), subject.take(subject.line(_LONG, seed=6))
    alike = _correlate(normal.samples, other.samples)
    varies = subject.engine.info.varies_with_seed
    assert (alike < _SAME_TAKE) == varies, f"another seed: correlation {alike:.5f}"


def check_batch_invariance(subject: Subject) -> None:
    """Where it says so, a line sounds the same alone and in a batch."""
    if not subject.loaded.batch_invariant or subject.loaded.max_items < 2:
        return
    lines = [subject.line(_SHORT), subject.line(_LONG)]
    together = subject.loaded.run(lines)
    for line, take in zip(lines, together, strict=True):
        alone = subject.take(line).samples
        assert np.array_equal(alone, take.samples), f"{line.text!r} sounds otherwise in a batch"


def check_unknown_voice(subject: Subject) -> None:
    """With the names nearest to it."""
    known = subject.weights.voices[0].name
    error = _expect_error(subject, subject.line(_SHORT, voice=f"{known}zq"), InvalidInputError)
    assert known in error.hint, f"the hint does not name {known}: {error.hint}"


def check_unknown_language(subject: Subject) -> None:
    """Rather than read it with a foreign voice."""
    _expect_error(subject, subject.line(_SHORT, language="xx"), UnspeakableTextError)


def check_voice_names(subject: Subject) -> None:
    """The first and the last voice by their names; the first is also the one of no name."""
    first, last = subject.weights.voices[0], subject.weights.voices[-1]
    (named,) = subject.loaded.run([subject.line(_SHORT, voice=first.name)])
    assert np.array_equal(named.samples, subject.take(subject.line(_SHORT)).samples)
    language = last.language
    text = subject.texts.get(language.partition("-")[0], subject.texts["en"])[_SHORT]
    _check_samples(subject.take(Utterance(text, language, last.name)), subject.loaded.sample_rate)


def check_single_letter(subject: Subject) -> None:
    """The shortest line there is."""
    _check_samples(subject.take(subject.line(_SHORT, text="a")), subject.loaded.sample_rate)


def check_longest_line(subject: Subject) -> None:
    """The longest line its info allows, to the end."""
    limit, text = subject.engine.info.max_chars, subject.line(_LONG).text
    full = (f"{text} " * (limit // len(text) + 1))[:limit].strip()
    longest, normal = (
        subject.take(subject.line(_LONG, text=full)),
        subject.take(subject.line(_LONG)),
    )
    _check_samples(longest, subject.loaded.sample_rate)
    share = longest.duration_s / normal.duration_s / (len(full) / len(text))
    assert share > 0.5, f"a line of {limit} characters is only {longest.duration_s:.1f} s"


def check_blank_line(subject: Subject) -> None:
    """A line of no words is a take or UnspeakableTextError, no other error."""
    with suppress(UnspeakableTextError):
        subject.loaded.run([subject.line(_SHORT, text=" ")])


def check_ipa(subject: Subject) -> None:
    """IPA between brackets is said, not spelled."""
    if "ipa" not in subject.engine.info.reads:
        return
    take = subject.take(subject.line(_SHORT, text="[[həˈloʊ]]"))
    _check_samples(take, subject.loaded.sample_rate)
    assert take.duration_s < subject.take(subject.line(_LONG)).duration_s, "the brackets are read"


def check_part_order(subject: Subject) -> None:
    """Each utterance of a batch ends with one last part; several only where the info says so."""
    lines = [subject.line(_LONG), subject.line(_SHORT)]
    done: set[int] = set()
    count = 0
    for part in subject.loaded.synthesize(lines):
        assert 0 <= part.index < len(lines), f"a part of utterance {part.index} of {len(lines)}"
        assert part.index not in done, "a part after the last"
        assert part.samples.dtype == np.float32, f"{part.samples.dtype}, not float32"
        count += 1
        if part.last:
            done.add(part.index)
    assert done == {0, 1}, "an utterance without a last part"
    streams = subject.engine.info.streams
    assert (count > len(lines)) <= streams, "it streams, and its info does not say so"


def check_word_times(subject: Subject) -> None:
    """Words in order, each inside the take; only where the info promises them, and then always."""
    line = subject.line(_LONG)
    take = subject.take(line)
    assert bool(take.words) == subject.engine.info.word_times, "word times against the info"
    last = 0.0
    for word in take.words:
        assert word.start_s >= last - 1e-6, f"{word.text!r} begins before the word before it ends"
        assert word.end_s > word.start_s, f"{word.text!r} takes no time"
        last = word.end_s
    assert last <= take.duration_s + 1e-6, "a word after the end"
    if take.words:
        assert len(take.words) >= 0.8 * len(line.text.split()), "words are missing"


def check_pickling(subject: Subject) -> None:
    """Lines and takes go to another process and back."""
    line = subject.line(_SHORT)
    take = subject.take(line)
    back = pickle.loads(pickle.dumps((line, take)))
    assert back[0] == line
    assert np.array_equal(back[1].samples, take.samples)
    assert back[1].words == take.words


def check_unknown_options(subject: Subject) -> None:
    """And lists those it has."""
    try:
        resolve_options(subject.engine.info, {"no such option": 1})
    except InvalidInputError:
        return
    raise AssertionError("an option that it does not have is taken")


Check = Callable[[Subject], None]
CHECKS: tuple[Check, ...] = (
    check_info,
    check_light_imports,
    check_voices,
    check_batch_order,
    check_empty_batch,
    check_longer_text,
    check_rate,
    check_determinism,
    check_seed,
    check_batch_invariance,
    check_unknown_voice,
    check_unknown_language,
    check_voice_names,
    check_single_letter,
    check_longest_line,
    check_blank_line,
    check_ipa,
    check_part_order,
    check_word_times,
    check_pickling,
    check_unknown_options,
)


def _correlate(one: Samples, other: Samples) -> float:
    """How alike two takes are; 0 if their lengths differ."""
    if len(one) != len(other):
        return 0.0
    return float(np.dot(one, other) / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-12))


def _check_samples(take: Take, rate: int) -> None:
    samples: Samples = take.samples
    assert take.rate == rate, f"{take.rate} samples per second, not {rate}"
    assert samples.dtype == np.float32, f"{samples.dtype}, not float32"
    assert samples.ndim == 1, f"{samples.ndim} dimensions, not mono"
    assert len(samples), "no samples"
    assert np.isfinite(samples).all(), "samples that are no numbers"
    assert 1e-4 < np.abs(samples).max() < 4.0, f"a peak of {np.abs(samples).max()}"


def _expect_error(
    subject: Subject, line: Utterance, kind: type[InvalidInputError]
) -> InvalidInputError:
    try:
        subject.loaded.run([line])
    except kind as error:
        return error
    raise AssertionError(f"{line} is not refused with {kind.__name__}")
