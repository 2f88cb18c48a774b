"""Compiled regions of a script: what it compiles, and every call of that, counted without keeping any."""
