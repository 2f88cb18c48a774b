"""Configuration files: where they are, what they may contain, and which value applies."""
