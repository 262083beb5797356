"""What can be asked for: a file for each kind, each with `router(parts)`."""
