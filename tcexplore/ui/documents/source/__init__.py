"""The source pane: the person's lines, and what became of each."""
