"""Tests of finding the model's Python, and of running in it."""
