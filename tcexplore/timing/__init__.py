"""Honest timing: pure statistics (no torch), and the measuring loop that the worker runs."""
