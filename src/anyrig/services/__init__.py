"""One function for each kind of job: what the command line, the server and the cluster call."""
