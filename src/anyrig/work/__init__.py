"""Many items into batches on devices: packed by budget, split when memory runs out, in order."""
