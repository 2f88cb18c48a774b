"""The source pane: the user's lines, and what became of each."""
