"""Leaves torch's fast paths of attention as they are.

In evaluation mode, where nothing is differentiated or no parameter wants a gradient, attention and transformer encoders
run fused kernels, which round otherwise, unless they find hooks in themselves or a function mode. A frozen encoder
inside a model that trains does so at every step. So while such a module runs, our hooks and our mode are gone. Hooks
on all modules take them out and put them back, which torch's search does not find; they exist only around models that
have such modules.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as all_modules
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode_temporarily
from torch.utils.hooks import RemovableHandle

from .hooks import Hook

KINDS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)


class FastPaths:
    """Between `enter` and `leave`, has no hook and no mode of ours seen by a module that may take its fast path."""

    def __init__(self, model: nn.Module) -> None:
        self._present = any(isinstance(module, KINDS) for module in model.modules())
        self._mode: TorchFunctionMode | None = None
        self._handles: list[RemovableHandle] = []
        self._running: nn.Module | None = None
        self._restore = ExitStack()

    def enter(self, mode: TorchFunctionMode) -> None:
        """`mode`: the function mode that is not to be seen."""
        if self._present:
            self._mode = mode
            self._handles = [
                all_modules.register_module_forward_pre_hook(self._before),
                all_modules.register_module_forward_hook(self._after, always_call=True),
            ]

    def leave(self) -> None:
        """Let modules run as they did before."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._mode = [], None
        self._end()

    def _before(self, module: nn.Module, _args: Any) -> None:
        if torch.compiler.is_compiling() or self._running is not None or not may_be_fast(module):
            return
        self._running = module
        with suppress(Exception):  # the forward pass goes on, at worst by the other path
            if _get_current_function_mode() is self._mode:
                self._restore.enter_context(_pop_mode_temporarily())
            for each in module.modules():
                for hooks in (each._forward_pre_hooks, each._forward_hooks):
                    self._restore.callback(_taken(hooks))

    def _after(self, module: nn.Module, _args: Any, _output: Any) -> None:
        if module is self._running and not torch.compiler.is_compiling():
            self._end()

    def _end(self) -> None:
        self._running = None
        with suppress(Exception):
            self._restore.close()


def may_be_fast(module: nn.Module) -> bool:
    """Whether a module could take its fast path if nobody looked on."""
    if not isinstance(module, KINDS) or module.training:
        return False
    return not (torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters()))


def _taken(hooks: dict[int, Any]) -> Callable[[], None]:
    """Take our hooks out; what this returns puts them back."""
    ours = {key: hook for key, hook in hooks.items() if isinstance(hook, Hook)}
    for key in ours:
        del hooks[key]
    return lambda: hooks.update(ours)
