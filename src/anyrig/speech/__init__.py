"""Text in, natural audio out, on any device.

    from anyrig.speech.synthesis import Synthesizer

`prepare` turns a text into segments, `engines` speak them, `synthesis` has it done on every device.
"""
