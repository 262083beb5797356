"""Items through engines on devices: batches, worker processes, scheduling, retries."""
