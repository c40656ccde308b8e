"""Mode: which modules are in training mode, and over how many values the batch norms average."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..output_hooks import OutputHooks
from ..schema import MODULES, STEPS
from .base import Instrument

if TYPE_CHECKING:
    from ..context import Context
    from ..step import Step


class Mode(Instrument):
    """Share of modules in training mode; for each batch norm its mode and the fewest values that it averaged over."""

    name = "mode"
    columns = (STEPS["training_share"], MODULES["training"], MODULES["normalized_over"])

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = OutputHooks()
        self._seen: dict[str, tuple[bool, int | None]] = {}
        if not context.hooks:
            context.explain(("modules.training", "modules.normalized_over"), "compiled")

    def begin(self, step: Step) -> None:
        """Watch the batch norms of the step's forward passes."""
        self.end(step)
        if self.context.hooks:
            for name, module in batch_norms(self.context.model).items():
                self._hooks.place(module, partial(self._note, name))

    def before_backward(self, step: Step) -> None:
        """Right after the step's first forward pass."""
        step.put("training_share", training_share(self.context.model))

    def leave(self, step: Step) -> None:
        self._hooks.remove()

    def end(self, step: Step) -> None:
        """Add a row for each batch norm that ran."""
        seen, self._seen = self._seen, {}
        self._hooks.close()
        for name, (training, values) in seen.items():
            step.add_row("modules", module=name, training=training, normalized_over=values)

    def _note(self, name: str, module: nn.Module, output: Tensor) -> None:
        training, values = module.training, normalized_over(module, output)
        _, before = self._seen.get(name, (training, None))
        self._seen[name] = training, values if before is None or (values is not None and values < before) else before


def batch_norms(model: nn.Module) -> dict[str, _BatchNorm]:
    """The batch norms of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)}


def training_share(model: nn.Module) -> float:
    """Share of the modules, the model itself included, that are in training mode."""
    modes = [module.training for module in model.modules()]
    return sum(modes) / len(modes)


def normalized_over(module: nn.Module, output: Tensor) -> int | None:
    """Values of this process that a batch norm averaged over for each channel; None if it used its running statistics.

    `output`: (N, C, ...), of the shape of the input.
    """
    if not (module.training or getattr(module, "running_mean", None) is None):
        return None
    return output.numel() // max(output.shape[1], 1)
