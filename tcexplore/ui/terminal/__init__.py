"""What the terminal can do: bytes, colours, clipboard."""
