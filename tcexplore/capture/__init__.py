"""Capture of what torch does, from its own objects and events: one module per fact. Runs in the worker only."""
