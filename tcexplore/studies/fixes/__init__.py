"""Fixes study: every graph break with the fixes tried for it."""
