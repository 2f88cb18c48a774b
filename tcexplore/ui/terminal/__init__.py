"""What the terminal can do: bytes, colors, clipboard."""
