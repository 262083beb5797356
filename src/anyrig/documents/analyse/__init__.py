"""What a folder of texts is about: languages, key phrases, duplicates, clusters, statistics."""
