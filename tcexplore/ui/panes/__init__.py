"""The panes: which views they have, and the widgets that show them."""
