"""Whether the graph of a forward pass can be differentiated a time that its training does not know of.

Most graphs can, with no trace. Some may be differentiated only once: what was saved for the backward pass is handed out
once, or is freed by a function of the user's own. Others listen: a hook on a tensor counts, or changes a gradient. Both
are told by what the user's code calls while its forward pass runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules

from .graph import Walk

_LISTENERS = {"register_hook": "a hook on a tensor", "retain_grad": "a tensor that keeps its gradient"}
_CHECKPOINT = "torch.utils.checkpoint"


class Fragility:
    """What was seen in one forward pass. `reason`: why its graph must be left alone; "" where it need not be."""

    def __init__(self) -> None:
        self.reason = ""
        self.recomputes = False
        """Whether layers run again when they are differentiated (activation checkpoints)."""

    def note(self, function: Any) -> None:
        """The user's code called a function of torch."""
        if self.reason:
            return
        name = getattr(function, "__name__", "")
        if name in _LISTENERS:
            self.reason = f"{_LISTENERS[name]} would notice it"
        elif torch._C._len_torch_dispatch_stack():
            self.reason = "a dispatch mode, as of selective activation checkpoints, would notice it"
        else:
            self._note_saving()

    def _note_saving(self) -> None:
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if hooks is not None:
            plain = getattr(hooks[0], "__module__", "") == _CHECKPOINT
            self.recomputes = self.recomputes or plain
            self.reason = "" if plain else "hooks on what is saved for the backward pass may hand it out only once"


def listening(model: nn.Module, start: Tensor) -> str:
    """Why the graph behind a tensor must not be differentiated a further time: who would notice it; "" if nobody."""
    if any(m._backward_hooks or m._backward_pre_hooks for m in model.modules()):
        return "a module has hooks on its backward pass, which would be called"
    if modules._global_backward_hooks or modules._global_backward_pre_hooks:
        return "there are hooks on the backward passes of all modules, which would be called"
    own = next((name for node in Walk(start) if (name := _own_function(node))), "")
    return f"{own} is a function of its own, which may be differentiated only once" if own else ""


def _own_function(node: Any) -> str:
    """Name of an autograd function that is written in Python, torch's own wrappers aside; else empty."""
    function = getattr(type(node), "_forward_cls", None)
    return "" if function is None or function.__module__ == _CHECKPOINT else str(function.__name__)
