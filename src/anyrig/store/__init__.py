"""Things kept on disk. For now: small files that are written whole or not at all."""
