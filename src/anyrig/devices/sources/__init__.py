"""One file per vendor: what the operating system knows of its devices. No framework is imported."""
