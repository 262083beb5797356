"""anyrig: speech, documents and training on whatever hardware a person owns."""

from anyrig.version import __version__ as __version__
