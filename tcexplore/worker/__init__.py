"""Worker processes, the only processes in which the user's code runs."""
