"""The recompile check: whether a call would recompile, from torch's own guards, without compiling anything."""
