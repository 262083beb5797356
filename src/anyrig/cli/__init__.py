"""The command line: `main` runs a command, one file each."""
