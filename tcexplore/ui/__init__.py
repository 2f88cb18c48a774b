"""The terminal app: the only room that imports textual."""
