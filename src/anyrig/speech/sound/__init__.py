"""What happens to a take after an engine has given it: packed, checked, joined, levelled, written.

Importing a file of this room loads numpy, and soundfile, pyebur128 or PyAV only where used.
"""
