"""Things kept on disk: results by key (`results`), and small files written whole or not at all.

Nothing is re-exported: `atomic` is wanted by commands that must not pay for SQLite.
"""
