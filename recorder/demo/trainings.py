"""The trainings of the demo: what differs between them, and the loop that they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from .. import Recorder
from .data import Loader, digits
from .models import ConvNet, deep_mlp

EPOCHS = 25
RATE = 0.02
MOMENTUM = 0.9


def healthy() -> tuple[nn.Module, Optimizer]:
    """Nothing wrong."""
    model = ConvNet()
    return model, SGD(model.parameters(), RATE, MOMENTUM)


def exploding_gradients() -> tuple[nn.Module, Optimizer]:
    """The standard deviation 1, where 1/8 keeps the scale of 64 inputs: each layer magnifies the gradient."""
    model = deep_mlp(10, nn.Tanh)
    for name, parameter in model.named_parameters():
        if name.endswith("weight"):
            nn.init.normal_(parameter)
    return model, SGD(model.parameters(), RATE / 200, MOMENTUM)


def vanishing_gradients() -> tuple[nn.Module, Optimizer]:
    """The slope of a sigmoid is 1/4 at most: each layer takes another factor off the gradient."""
    model = deep_mlp(8, nn.Sigmoid)
    return model, SGD(model.parameters(), RATE, MOMENTUM)


def rate_too_large() -> tuple[nn.Module, Optimizer]:
    """Steps that overshoot the valley by so much that the loss rises."""
    model = ConvNet()
    return model, SGD(model.parameters(), 50 * RATE, MOMENTUM)


def stalled_loss() -> tuple[nn.Module, Optimizer]:
    """Steps so short that they lead nowhere."""
    model = ConvNet()
    return model, SGD(model.parameters(), RATE / 10_000, MOMENTUM)


def forgotten_parameters() -> tuple[nn.Module, Optimizer]:
    """The group of the backbone is missing. Nothing fails: the head learns on features that never change."""
    model = ConvNet()
    return model, SGD([{"params": model.head.parameters()}], RATE, MOMENTUM)


TRAININGS: dict[str, Callable[[], tuple[nn.Module, Optimizer]]] = {
    "healthy": healthy,
    "exploding-gradients": exploding_gradients,
    "vanishing-gradients": vanishing_gradients,
    "rate-too-large": rate_too_large,
    "stalled-loss": stalled_loss,
    "forgotten-parameters": forgotten_parameters,
}


def record(name: str, run_dir: Path, seed: int) -> float:
    """Train one of TRAININGS while a recorder looks on. Returns the accuracy on the validation images.

    Raises FileExistsError if the directory holds a run already.
    """
    torch.manual_seed(seed)
    train_loader, valid_loader = digits(seed)
    model, optimizer = TRAININGS[name]()
    loss_fn = nn.CrossEntropyLoss()

    with Recorder(run_dir, model, optimizer, loss_fn, hparams={"training": name, "seed": seed}) as recorder:
        for epoch in range(1, EPOCHS + 1):
            for inputs, targets in train_loader:
                optimizer.zero_grad()
                with recorder.step() as step:
                    loss = loss_fn(model(inputs), targets)
                    step.backward(loss)
                optimizer.step()
            with recorder.evaluate("valid"):
                valid_loss, accuracy = evaluate(model, valid_loader, loss_fn)
            recorder.log("valid", epoch=epoch, loss=valid_loss, accuracy=accuracy)
    return accuracy.item()


@torch.no_grad()
def evaluate(model: nn.Module, loader: Loader, loss_fn: nn.Module) -> tuple[Tensor, Tensor]:
    """Loss and accuracy on a loader of one batch; the model is back in training mode afterwards."""
    ((inputs, targets),) = loader
    model.eval()
    predictions = model(inputs)
    model.train()
    return loss_fn(predictions, targets), (predictions.argmax(dim=1) == targets).double().mean()
