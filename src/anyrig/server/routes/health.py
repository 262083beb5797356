"""Not there yet."""

from __future__ import annotations

from fastapi import APIRouter

from anyrig.server.parts import Parts


def router(parts: Parts) -> APIRouter:
    """The routes."""
    return APIRouter()
