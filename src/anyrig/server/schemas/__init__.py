"""What goes in and out over HTTP, a file for each slice."""
