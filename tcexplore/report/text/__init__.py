"""The study reports."""
