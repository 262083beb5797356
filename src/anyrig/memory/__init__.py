"""Memory that runs out: recognised, recovered from, and fitted to before it happens."""
