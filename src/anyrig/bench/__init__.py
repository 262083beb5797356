"""Is a device right, and how fast: kernels in child processes, figures that are kept."""
