"""Audio in, words out: to check speech, and to transcribe.

    recogniser = choose("en")()
    transcript = recogniser.transcribe(samples, 24000)
    word_errors("Two cats sat down.", transcript.text).rate

Importing it loads no model and no framework.
"""

from anyrig.recognise.choose import choose, recipe
from anyrig.recognise.compare import WordErrors, word_errors
from anyrig.recognise.protocol import Recogniser, Recording, Transcript

__all__ = [
    "Recogniser",
    "Recording",
    "Transcript",
    "WordErrors",
    "choose",
    "recipe",
    "word_errors",
]
