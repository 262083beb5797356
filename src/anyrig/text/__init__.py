"""Text out of files, and text cut into sentences and told apart by language."""
