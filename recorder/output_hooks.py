"""Forward hooks that look at what modules return, for one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .hooks import Hook, watched


class OutputHooks:
    """`place` them when the step begins, `remove` them when its block ends, and `close` with the step.

    What goes wrong in a hook is raised by `close`, outside the user's forward pass, which goes on.
    """

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []
        self._failure: Exception | None = None

    def place(self, module: nn.Module, note: Callable[[nn.Module, Tensor], None]) -> None:
        """Have `note` called with the module and its output after each forward pass that is differentiated."""

        def hook(module: nn.Module, _: Any, output: Any) -> None:
            try:
                if watched():
                    with torch._C.DisableTorchFunction(), torch.no_grad():
                        note(module, output)
            except Exception as error:
                self._failure = error

        self._handles.append(module.register_forward_hook(Hook(hook)))

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def close(self) -> None:
        """Remove the hooks, and raise what went wrong in one since the last time."""
        self.remove()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
