"""Studies: many runs of one model file. Each study is one module."""
