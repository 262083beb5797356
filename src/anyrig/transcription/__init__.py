"""Audio in, words out: to check speech, and to transcribe.

    from anyrig.transcription.choose import choose
    from anyrig.transcription.compare import word_errors

    recogniser = choose("en")()
    transcript = recogniser.transcribe(samples, 24000)
    word_errors("Two cats sat down.", transcript.text).rate

Importing it loads no model and no framework.
"""
