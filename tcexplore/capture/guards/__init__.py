"""Guards: conditions that torch checks before it reuses a compiled graph."""
