"""One file per format, each with `read(path, limits) -> Document`; imported when it is needed."""
