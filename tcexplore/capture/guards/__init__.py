"""Guards: what torch checks before it uses a compiled graph again."""
