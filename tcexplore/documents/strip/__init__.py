"""The lines above the panes: title, verdict, history."""
