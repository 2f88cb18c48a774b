"""The guards of a compiled graph: what they check, why, and which of them nobody edits."""
