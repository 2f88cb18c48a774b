"""The source pane: the model file with facts about each line."""
