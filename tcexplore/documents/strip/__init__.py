"""The lines around the panes: title, verdict, history."""
