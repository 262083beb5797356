"""Pictures of pages to text: engines, their choice, and what is written of what they read."""
