"""tcexplore: the terminal explorer for torch.compile."""

__version__ = "0.1.0"
