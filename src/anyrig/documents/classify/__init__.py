"""Which of some labels a text is: by their names alone, by examples, or by a fine-tuned model."""
