"""The page in the browser: a client of the same routes, in NiceGUI."""
