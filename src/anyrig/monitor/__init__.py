"""Live figures of every device: sampled, kept for a while, watched and reported."""
