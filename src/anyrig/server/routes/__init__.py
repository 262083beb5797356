"""A file for each resource, with its schemas and `router(server)`."""
