"""Artifacts study: cache artifacts saved by one process and loaded by another."""
