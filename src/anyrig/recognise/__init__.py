"""Audio in, words out: to check speech, and to transcribe."""
