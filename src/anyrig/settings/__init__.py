"""Settings read against a schema, the user's folders, and the device saved by `anyrig use`."""
