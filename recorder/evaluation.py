"""What is audited of a pass outside training: the modes of the modules and the model's input, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from .context import Context
from .hooks import Hook
from .instruments.mode import Mode, training_share
from .instruments.model_input import choose, has_features, moments, summary
from .nested import tensors_in


@contextmanager
def audited_evaluation(context: Context, split: str) -> Iterator[None]:
    """Record modes and input of the model's first forward pass within, if any, as an `evaluation` event."""

    def audit(model: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():  # a compiled model calls this one, and must not trace us
            return
        handle.remove()  # before the forward pass, so that modules which look for hooks find none
        try:
            detail = evaluation(model, tensors_in(args, kwargs), split)
            context.event("evaluation", f"A pass over {split!r}", **detail)
        except Exception as error:  # the user's forward pass goes on
            message = f"The audit of {split!r} failed: {error}"
            context.once("error", message, instrument=Mode.name, exception=repr(error))

    handle = context.model.register_forward_pre_hook(Hook(audit), with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def evaluation(model: nn.Module, inputs: Iterable[Tensor], split: str) -> dict[str, Any]:
    """Detail of an `evaluation` event; 0-d tensors stay on the device. No statistics where no input has any."""
    detail: dict[str, Any] = {"split": split, "training_share": training_share(model)}
    chosen, _ = choose(inputs)
    if chosen is not None:
        detail |= summary(moments(chosen))
    if chosen is None or not has_features(chosen):
        detail.pop("input_spread", None)
    return detail
