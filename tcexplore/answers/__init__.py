"""Questions about a run and their short answers, for agents and scripts."""
