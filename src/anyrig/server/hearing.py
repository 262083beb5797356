"""Which model hears: one that is known by its name, or a folder that the settings allow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anyrig.server.errors import Problem

if TYPE_CHECKING:
    from anyrig.server.access import Client
    from anyrig.server.state import ServerState

_OPENAI = re.compile(r"whisper-1|gpt-.*", re.DOTALL)
"""Names of OpenAI's: clients send them whatever there is. The language decides who listens."""


def is_openai(name: str) -> bool:
    """Whether clients of OpenAI's interface send this name, whatever there is."""
    return _OPENAI.fullmatch(name) is not None


def model_of(server: ServerState, client: Client, name: str) -> str:
    """The model that a request names; empty where the language decides."""
    from anyrig.recognise.model import NAMES
    from anyrig.server.access import open_path

    if is_openai(name) or name in ("", "default", "auto"):
        return ""
    if "/" in name or "\\" in name:
        return str(open_path(server, client, name, "models"))
    if name not in NAMES:
        raise Problem(
            404, f"there is no model {name[:80]!r} that hears",
            hint=f"There are: {', '.join(NAMES)}; or leave it out.", param="model",
        )  # fmt: skip
    return name
