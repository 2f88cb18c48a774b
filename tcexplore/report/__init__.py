"""A snapshot as text and as JSON."""
