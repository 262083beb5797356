"""A long text in a few sentences: its own ones, or those of a model that writes."""
