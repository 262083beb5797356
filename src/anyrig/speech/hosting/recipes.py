"""What each hosted engine's environment holds: pins that were chosen together, and their price."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from anyrig.devices.wheels import CPU_FLAVOUR
from anyrig.errors import InvalidInputError

GB = 1_000_000_000


@dataclass(frozen=True)
class Recipe:
    """An environment, before it is made."""

    name: str
    adapter: str
    """What host.py calls the engine."""
    requirements: tuple[str, ...]
    """As pip takes them."""
    lowest: tuple[int, int]
    highest: tuple[int, int]
    """Versions of Python that all of it is published for."""
    builds: Mapping[str, str] = field(default_factory=dict)
    """By flavour: the usual folder of torch's own index that has the pinned torch for it."""
    disk_bytes: int = 0
    """Installed with torch for the CPU."""
    disk_gpu_bytes: int = 0
    """Installed with torch for a GPU."""
    notice: str = ""
    """What a person must agree to before the weights are used; empty when nothing is asked."""
    agreed: Mapping[str, str] = field(default_factory=dict)
    """Variables that tell the library so, once they have."""
    needs: str = ""
    """What must be on the system, in a sentence."""

    @property
    def fingerprint(self) -> str:
        """Changes when what is installed does."""
        shaping = {
            key: value
            for key, value in asdict(self).items()
            if key in ("name", "adapter", "requirements", "builds")
        }
        return hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def torch(self) -> str:
        """The version of torch that is pinned."""
        pins = dict(requirement.partition("==")[::2] for requirement in self.requirements)
        return pins.get("torch", "")

    def disk(self, flavour: str) -> int:
        """About how much room it takes with a build of torch."""
        on_gpu = flavour in self.builds and flavour != CPU_FLAVOUR
        return (self.disk_gpu_bytes or self.disk_bytes) if on_gpu else self.disk_bytes


_TORCH_28 = {"cpu": "cpu", "cuda": "cu128", "rocm": "rocm6.4", "xpu": "xpu"}

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "xtts",
            "xtts",
            # six is needed and not declared; torch 2.9 and newer would need torchcodec as well.
            (
                "coqui-tts==0.28.0", "torch==2.8.0", "torchaudio==2.8.0", "transformers==5.22.2",
                "six==1.17.0",
            ),
            (3, 10),
            (3, 13),
            builds=_TORCH_28,
            disk_bytes=int(1.6 * GB),
            disk_gpu_bytes=int(7.5 * GB),
            notice=(
                "The weights of XTTS v2 are under the Coqui Public Model License: for "
                "non-commercial use only, the audio made with them as well."
            ),
            agreed={"COQUI_TOS_AGREED": "1"},
            needs="a C compiler: one of its packages is published as source only",
        ),
        Recipe(
            "indextts",
            "indextts",
            ("indextts2-inference==2.1.1", "torch==2.8.0", "torchaudio==2.8.0"),
            (3, 10),
            (3, 12),
            builds=_TORCH_28,
            disk_bytes=3 * GB,
            disk_gpu_bytes=9 * GB,
            notice=(
                "IndexTTS2 is under bilibili's model licence: above 100 million monthly users or "
                "1 billion yuan of yearly revenue a separate licence is needed, and its use "
                "policy applies to everyone."
            ),
        ),
        Recipe(
            "vibevoice-realtime",
            "vibevoice-realtime",
            # The package of that name on the index has no streaming model: its repository has.
            (
                "vibevoice[streamingtts] @ git+https://github.com/microsoft/VibeVoice.git",
                "transformers==4.51.3", "torch==2.8.0",
            ),
            (3, 9),
            (3, 13),
            builds=_TORCH_28,
            disk_bytes=3 * GB,
            disk_gpu_bytes=9 * GB,
            needs="git: it is fetched from its repository",
        ),
    )
}  # fmt: skip


NAMES = tuple(RECIPES)
"""The engines that live in environments of their own."""


def recipe_of(name: str) -> Recipe:
    """The recipe of an engine that lives in its own environment."""
    if name in RECIPES:
        return RECIPES[name]
    raise InvalidInputError(
        f"{name} has no environment of its own",
        hint=f"These have one: {', '.join(RECIPES)}. `anyrig engines` says what others need.",
    )
