"""Terminal support: output, colors, clipboard."""
