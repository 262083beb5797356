"""A book in, a finished audiobook out; stands on `speech`, which has never heard of a book."""
