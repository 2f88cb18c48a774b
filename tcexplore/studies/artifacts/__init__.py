"""Artifacts study: cache artifacts saved in one worker and loaded in another."""
