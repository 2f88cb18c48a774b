"""Reports of a run: printed text and JSON."""
