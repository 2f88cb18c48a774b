"""Dynamo's settings, which the user's file may change when it is run."""

from __future__ import annotations

import contextlib
from typing import Any


class DynamoSettings:
    """Dynamo's settings as they are now, to be put back after the user's file may have changed them.

    On a torch that cannot copy its settings they stay as the file left them.
    """

    def __init__(self) -> None:
        import torch._dynamo

        self._config: Any = torch._dynamo.config
        self._copy: Any = None
        with contextlib.suppress(AttributeError):
            self._copy = self._config.get_config_copy()

    def restore(self) -> None:
        """Put them back."""
        if self._copy is not None:
            self._config.load_config(self._copy)
