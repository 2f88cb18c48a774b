"""The compiled regions of a script, and counters of their calls."""
