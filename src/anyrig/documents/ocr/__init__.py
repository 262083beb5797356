"""Pictures of pages to text: engines, their choice, and what is written of what they read."""

from typing import Literal, get_args

OcrFormat = Literal["txt", "json", "pdf", "hocr"]
FORMATS: tuple[OcrFormat, ...] = get_args(OcrFormat)
"""Files that the text of pages is written to."""
