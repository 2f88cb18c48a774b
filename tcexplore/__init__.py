"""tcexplore: the terminal explorer for torch.compile."""

try:
    from tcexplore._version import __version__ as __version__
except ImportError:  # a checkout that was not installed
    __version__ = "0+unknown"
