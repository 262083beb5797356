"""Text encoders in torch, without padding."""
