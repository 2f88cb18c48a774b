"""What the studies found: many runs of one file, side by side."""
