"""What engines share that live in environments of their own: found here, run by a host there.

`anyrig engines install NAME` makes the environment. Nothing of theirs is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from anyrig.backends.process import bind_device
from anyrig.devices.vendors import vendor_of
from anyrig.errors import (
    InvalidInputError,
    MissingPackageError,
    MissingWeightsError,
    UnspeakableTextError,
)
from anyrig.speech import voices
from anyrig.speech.engine import EngineWeights, OptionValue, SpeechEngine, Utterance, Voice
from anyrig.speech.hosting import environments
from anyrig.speech.hosting.client import Client, Deadlines, Part
from anyrig.speech.hosting.recipes import Recipe
from anyrig.storage import weights

if TYPE_CHECKING:
    from anyrig.placement import Placement, Workload
    from anyrig.speech.engine import Take

ADAPTER = "1"
_RECORDINGS = (".wav", ".flac", ".mp3", ".ogg")
CLONES = "Voices are recordings of 5 to 15 seconds in the folder `voices` beside the weights."


class Hosted(SpeechEngine):
    """What these engines share."""

    hosted = True
    recipe: ClassVar[Recipe]
    files: ClassVar[tuple[str, ...]]
    """What must lie in the folder of weights."""
    clones = True
    paced: ClassVar[bool] = False
    """Whether the engine has a rate of its own."""
    cores = None  # one process on a CPU: such a model is large, and its own threads use the cores
    pads = False
    batch_invariant = True  # every line has its own seed
    max_items = 16  # said one after the other: more would only be lost together

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str = "",
        environment: str = "",
        deadlines: Deadlines | None = None,
        **options: OptionValue,
    ) -> None:
        """Start the host and load.

        Args:
            placement: where it runs.
            folder: `EngineWeights.folder`.
            environment: `EngineWeights.environment`.
            deadlines: other than the usual ones.
            options: of `info.options`, checked and complete.
        """
        super().__init__(placement, folder=folder)
        self._voices = self._found_voices(Path(folder))
        self._streams = self.info.streams and bool(options.get("stream", True))
        self._kept: dict[Utterance, Take] = {}
        self._client = Client(
            environments.python_of(Path(environment)),
            self.recipe.adapter,
            self._variables(placement, Path(environment)),
            load={
                "folder": folder,
                "device": device_word(placement),
                "precision": placement.precision,
                "threads": placement.threads,
                "budget_bytes": placement.budget_bytes,
                "options": options,
            },
            deadlines=deadlines,
        )
        self._client.start()
        self.sample_rate = int(self._client.ready["rate"])

    def _variables(self, placement: Placement, environment: Path) -> dict[str, str]:
        """A worker's own variables, and those that show the host this device alone."""
        # The one place outside the doors that reads them: a child must inherit its parent's.
        own = dict(os.environ)
        bound, _ = bind_device(placement.device, own)
        agreed = environments.variables(environment, self.recipe)
        return {**own, **placement.variables, **bound, **agreed}

    @classmethod
    def find_weights(
        cls, folder: Path | None = None, *, environments: Path | None = None
    ) -> EngineWeights:
        """Its weights and voices in `folder`, its environment in the folder of all of them."""
        environment, version = _environment(cls.recipe, environments)
        held = cls._held(folder) if folder is not None else []
        if folder is None or not held:
            raise weights.missing_weights_error(cls.info.name, folder, cls.info.weights, cls.files)
        found = cls._found_voices(folder)
        if not found:
            raise MissingWeightsError(
                f"{cls.info.name} has no voice in {folder}", hint=cls._how_voices(folder)
            )
        return EngineWeights(
            engine=cls.info.name,
            version=f"{ADAPTER}/{version}",
            fingerprint=weights.hash_files(held),
            voices=found,
            folder=str(folder),
            environment=str(environment),
            sample_rate=cls.sample_rate,
            worker_bytes=int(1.3 * sum(path.stat().st_size for path in held)),
        )

    @classmethod
    def need(cls, found: EngineWeights) -> Workload:
        """A device that any library here can drive: the one that will drive it is elsewhere."""
        stamp = environments.stamp_of(Path(found.environment))
        flavour = stamp.kind if stamp else ""
        return replace(super().need(found), libraries=("torch", "onnx"), torch_flavour=flavour)

    @classmethod
    def _held(cls, folder: Path) -> list[Path]:
        """The weights; nothing where one of them is missing."""
        paths = [folder / name for name in cls.files]
        return paths if all(path.is_file() for path in paths) else []

    @classmethod
    def _found_voices(cls, folder: Path) -> tuple[Voice, ...]:
        """Its own, then recordings."""
        own = tuple(cls._voice(name, folder) for name in cls._own_voices(folder))
        recordings = sorted(folder.glob("voices/*")) if cls.clones else []
        return own + tuple(
            replace(cls._voice(path.stem, folder), digest=weights.hash_file(path)[:16])
            for path in recordings
            if path.suffix.lower() in _RECORDINGS
        )

    @classmethod
    def _voice(cls, name: str, folder: Path) -> Voice:
        first, *rest = cls._languages(folder)
        return Voice(name, first, cls.info.name, title=name, also=tuple(rest))

    @classmethod
    def _languages(cls, folder: Path) -> tuple[str, ...]:
        """What every voice speaks."""
        return cls.info.languages

    @classmethod
    def _own_voices(cls, folder: Path) -> Sequence[str]:
        """Names of voices that come with the weights."""
        return ()

    @classmethod
    def _how_voices(cls, folder: Path) -> str:
        """What to do when there is none."""
        return CLONES

    @classmethod
    def pickles(cls, folder: Path) -> list[Path]:
        """Voices that are still pickles: `convert` makes safetensors of them."""
        return []

    def run(self, batch: Sequence[Utterance]) -> list[Take]:
        """A take of each line; those that were done before a failure are not said again."""
        lines = [self._checked(line) for line in batch]
        missing = [line for line in dict.fromkeys(lines) if line not in self._kept]
        for part in self._client.speak([self._told(line) for line in missing]) if missing else ():
            self._kept[missing[part.line]] = self._take(part, missing[part.line].rate)
        takes = [self._kept[line] for line in lines]
        self._kept.clear()
        return takes

    def stream(self, line: Utterance) -> Iterator[Take]:
        """Parts as the host gives them, where it does and the rate is the engine's own."""
        if not self._streams or (line.rate != 1.0 and not self.paced):
            yield from self.run([line])
            return
        line = self._checked(line)
        for part in self._client.stream(self._told(line)):
            if part.data:
                yield self._take(part, 1.0)

    def close(self) -> None:
        """Let the host end; it also ends with this process."""
        self._client.close()

    def _told(self, line: Utterance) -> Utterance:
        """What the host is told: the rate is ours where the engine has none."""
        return line if self.paced else replace(line, rate=1.0)

    def _take(self, part: Part, rate: float) -> Take:
        import numpy as np

        from anyrig.audio.stretch import stretch
        from anyrig.speech.engine import Take

        samples = np.frombuffer(part.data, "<f4").astype(np.float32)
        if rate != 1.0 and not self.paced:
            samples = stretch(samples, part.rate, rate)
        return Take(samples, part.rate)

    def _checked(self, line: Utterance) -> Utterance:
        """The line with its voice named; a path to a recording is a voice as well."""
        if not line.text.strip():
            raise UnspeakableTextError("there is nothing to say", hint="Use a text with words.")
        if self.clones and line.voice.lower().endswith(_RECORDINGS):
            if voices.primary(line.language) not in self.info.languages:
                raise UnspeakableTextError(
                    f"{self.info.name} does not speak {line.language}",
                    hint=f"It speaks {', '.join(self.info.languages)}.",
                )
            if not Path(line.voice).is_file():
                raise InvalidInputError(
                    f"the recording {line.voice} does not exist", hint="Check the path."
                )
            return replace(line, voice=str(Path(line.voice).absolute()))
        named = voices.pick(self._voices, line).name
        return replace(line, voice=named, language=voices.primary(line.language))


def device_word(placement: Placement) -> str:
    """What torch of the other environment calls the device, once it sees that one alone."""
    device = placement.device
    if device.kind == "cpu":
        return "cpu"
    return vendor_of(device).torch_device or "cpu"


def _environment(recipe: Recipe, home: Path | None) -> tuple[Path, str]:
    """An engine's environment and its libraries' versions; what to do when it cannot be used."""
    name = recipe.name
    install = f"anyrig engines install {name}"
    state = environments.state(name, home, recipe=recipe) if home is not None else "absent"
    if home is None or state != "ready":
        told = {
            "absent": "has no environment yet",
            "broken": "has an environment that is half made or damaged",
            "stale": "has an environment of another release of anyrig",
        }
        raise MissingPackageError(f"{name} {told[state]}", hint=install)
    folder = environments.place(home, name)
    stamp = environments.stamp_of(folder)
    assert stamp is not None, "a ready environment has a stamp"
    first = recipe.requirements[0].partition("==")[0].partition("[")[0].partition(" ")[0]
    wanted = (first, "torch", "transformers")
    versions = (f"{key}-{stamp.versions[key]}" for key in wanted if key in stamp.versions)
    return folder, "+".join(versions) or stamp.recipe
