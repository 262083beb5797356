"""Text in, natural audio out, on any device.

    from anyrig.speech.synthesise import Studio

`normalise` says how things are read, `script` turns a text into segments, `engines` speak them,
`synthesise` tells the whole story.
"""
