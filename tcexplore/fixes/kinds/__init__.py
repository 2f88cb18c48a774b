"""Kinds of fixes, by the code that they change."""
