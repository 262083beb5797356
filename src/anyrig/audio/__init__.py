"""Sound as samples and as files: decode, encode, level, resample, stretch, play.

Importing a module loads numpy, and soundfile, pyebur128 or PyAV only where used.
"""

SPEECH_RATE = 16_000
"""Samples a second that speech recognition takes."""
