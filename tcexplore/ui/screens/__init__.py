"""The screens: the main one and the help."""
