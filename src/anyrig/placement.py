"""Need in, placement out: device, backend, precision and budget, with reasons. No framework."""
