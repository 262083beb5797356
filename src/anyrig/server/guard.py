"""Who may come in: middleware around the whole app."""

from __future__ import annotations

from fastapi import FastAPI

from anyrig.server.parts import Parts


def guarded(app: FastAPI, parts: Parts) -> None:
    """Put the guards in front."""
