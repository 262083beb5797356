"""An index of folders: files, their passages, vectors and words, in one SQLite file."""
