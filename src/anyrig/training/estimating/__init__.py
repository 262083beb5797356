"""What a training step will take of memory: counted on tensors without data (`estimate`), read
for a machine's devices (`fits`), or measured by batch size (`profile`).
"""
