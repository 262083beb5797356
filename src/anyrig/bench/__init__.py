"""Check that a device computes correctly and measure its speed, in child processes."""
