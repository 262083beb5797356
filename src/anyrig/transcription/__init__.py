"""Audio in, words out: to transcribe recordings, and to verify speech.

    from anyrig.transcription.compare import count_word_errors
    from anyrig.transcription.engines import Moonshine, Recording

    (transcript,) = Moonshine().run([Recording(samples, 24000, "en")])
    count_word_errors("Two cats sat down.", transcript.text).rate

Importing it loads no model and no framework.
"""
