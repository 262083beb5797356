"""VibeVoice, long-form speech with a voice from a sample: our own inference on its weights.

A language model (Qwen2) says frame by frame what comes next; a small diffusion head makes a frame's
latent; a decoder of causal convolutions makes 133 ms of sound of it; an encoder hears that sound,
and what it hears is the language model's next input. One frame is one fixed piece of work, so on
CUDA it is captured once and replayed.

The parts: `shape` (sizes), `weights` (a checkpoint's tensors), `language`, `diffusion`, `codec`,
`scheduler`; `model` puts them together, `frames` steps them, `prompt` says what goes in.
"""
