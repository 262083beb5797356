"""The page on the app."""

from __future__ import annotations

from fastapi import FastAPI

from anyrig.server.parts import Parts


def attach(app: FastAPI, parts: Parts) -> None:
    """Put the page on the app."""
