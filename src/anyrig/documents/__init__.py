"""What is in documents: vectors, classes, entities, pages read, folders searched."""
