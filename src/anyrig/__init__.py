"""anyrig: speech, documents and training on whatever hardware a person owns."""

__version__ = "0.1.0"
