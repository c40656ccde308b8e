"""Forward hooks that look at what modules return, for one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        self.place_with_input(module, lambda module, _, output: note(module, output))

    def place_with_input(self, module: nn.Module, note: Callable[[nn.Module, tuple[Any, ...], Tensor], None]) -> None:
        """The same, with the positional arguments of the forward pass before its output."""

        def hook(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            if watched():
                with self.guarded():
                    note(module, given, output)

        self._handles.append(module.register_forward_hook(Hook(hook)))

    def place_before(self, module: nn.Module, note: Callable[[], None]) -> None:
        """Have `note` called before each forward pass of the module that is differentiated."""

        def hook(_module: nn.Module, _given: Any) -> None:
            if watched():
                with self.guarded():
                    note()

        self._handles.append(module.register_forward_pre_hook(Hook(hook)))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Within it nothing is recorded by autograd or seen by function modes, and what is raised is kept for later."""
        try:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                yield
        except Exception as error:
            self._failure = error

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
