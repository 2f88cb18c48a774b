"""Capture of facts from torch's own objects and events, one module per fact. Runs only in the worker."""
