"""What ctypes and fcntl ask of the operating system, without a package in between."""
