"""Timing of eager against compiled: statistics without torch, and the measuring loop of the worker."""
