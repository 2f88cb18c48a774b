"""Cures for graph breaks: a change to the person's own lines, and what it takes to call it proven. No torch here."""
