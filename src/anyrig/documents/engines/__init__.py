"""Engines of the document room, found by name."""
