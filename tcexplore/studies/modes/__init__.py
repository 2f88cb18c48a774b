"""Modes study: every mode and backend side by side."""
