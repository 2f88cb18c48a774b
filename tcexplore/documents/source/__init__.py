"""The source pane: the model file and what became of each line."""
