"""The differences between two runs."""
