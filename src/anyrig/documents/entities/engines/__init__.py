"""Models that find names, each as an engine of `work`."""
