"""Fixes for graph breaks: changes to the user's own lines, and their verification. No torch here."""
