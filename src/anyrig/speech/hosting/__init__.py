"""Engines whose pins clash with ours: each in an environment and a process of its own."""
