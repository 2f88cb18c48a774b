"""Cold compile study: a compile with empty caches beside one with warm caches."""
