"""Would these inputs recompile? Answered from torch's own guards, without running the model."""
