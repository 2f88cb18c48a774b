"""Cold compile study: a compile with empty caches, then one with warm caches."""
