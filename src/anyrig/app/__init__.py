"""The application: what the command line, the server and Python programs call."""
