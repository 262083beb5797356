"""Memory for time: activations computed again (`recompute`), or kept on the host (`offload`)."""
