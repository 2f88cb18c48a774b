"""The guards pane and its views: cache entries, recompiles, symbols."""
