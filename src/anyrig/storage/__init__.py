"""What is stored on disk: files, locks, SQLite databases, the result cache, model weights.

Nothing is re-exported: `files` is used by commands that must not pay for SQLite.
"""
