"""Cures for graph breaks: a change to the user's own lines, and what it takes to call it proven. No torch here."""
