"""The stand-in as a speech engine. Its environments lie beside its weights, for tests alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.speech.engine import EngineInfo, EngineOption, EngineWeights
from anyrig.speech.hosting.engine import Hosted
from tests.speech.hosting.standin import QUICK, RECIPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyrig.placement import Placement


class Standin(Hosted):
    """Tones from another environment."""

    name = "standin"
    version = "1"
    recipe = RECIPE
    files = ("weights.bin",)
    sample_rate = 16000
    info = EngineInfo(
        name="standin",
        summary="tones",
        languages=("en", "es"),
        code_licence="MIT",
        weights_licence="MIT",
        weights="Make them.",
        varies_with_seed=True,
        streams=True,
        max_chars=40,
        options=(
            EngineOption("marker", "", "Where a death is noted."),
            EngineOption("load", "", "How loading fails."),
        ),
    )

    def __init__(self, placement: Placement, *, folder: str = "", **options: Any) -> None:
        options.setdefault("environment", str(Path(folder) / "environments" / "standin"))
        super().__init__(placement, folder=folder, deadlines=QUICK, **options)

    @classmethod
    def find_weights(
        cls, folder: Path | None = None, *, environments: Path | None = None
    ) -> EngineWeights:
        beside = folder / "environments" if folder else None
        return super().find_weights(folder, environments=environments or beside)

    @classmethod
    def _own_voices(cls, folder: Path) -> Sequence[str]:
        return ["low", "high"]


class Paced(Standin):
    """The same, with the engine's own rate."""

    paced = True
