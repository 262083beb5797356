"""Memory of devices: batch sizes that fit, out-of-memory errors, recovery from them."""
