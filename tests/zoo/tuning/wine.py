"""Three cultivars of wine from thirteen measurements whose units differ by factors of a thousand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from zoo.program import Program, Variant


class WineNet(nn.Module):
    """Two hidden layers with batch norm; log-probabilities out."""

    def __init__(self, hidden: int, norm_input: bool, bias: bool, softmax_dim: int, init_std: float | None) -> None:
        super().__init__()
        self.input_norm = nn.BatchNorm1d(13) if norm_input else nn.Identity()
        self.fc1 = nn.Linear(13, hidden, bias=bias)
        self.bn1 = nn.BatchNorm1d(hidden)
        self.fc2 = nn.Linear(hidden, hidden, bias=bias)
        self.bn2 = nn.BatchNorm1d(hidden)
        self.out = nn.Linear(hidden, 3)
        self.log_softmax = nn.LogSoftmax(dim=softmax_dim)
        if init_std is not None:
            nn.init.normal_(self.out.weight, std=init_std)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn1(self.fc1(self.input_norm(x))))
        x = torch.relu(self.bn2(self.fc2(x)))
        log_probabilities: Tensor = self.log_softmax(self.out(x))
        return log_probabilities


class PlainNet(nn.Sequential):
    """The same without any normalisation."""

    def __init__(self, hidden: int) -> None:
        super().__init__(nn.Linear(13, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.append(nn.Linear(hidden, 3))
        self.append(nn.LogSoftmax(dim=1))


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    net: str = "batch-norm",
    scale_features: bool = True,
    norm_input: bool = False,
    bias: bool = False,
    softmax_dim: int = 1,
    init_std: float | None = None,
    batch: int = 16,
    rate: float = 0.01,
    epochs: int = 50,
    sort: bool = False,
    back_to_train: bool = True,
    weight_decay: float = 0.0,
) -> float:
    """Minus the loss on the 60 wines held out."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    features, classes = load_wine(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        features, classes, test_size=60, stratify=classes, random_state=seed
    )
    if scale_features:
        scaler = StandardScaler().fit(x_train)
        x_train, x_test = scaler.transform(x_train), scaler.transform(x_test)
    inputs, targets = torch.tensor(x_train, dtype=torch.float32), torch.tensor(y_train)
    if sort:
        order = targets.argsort(stable=True)
        inputs, targets = inputs[order], targets[order]
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=batch, shuffle=not sort, drop_last=True)
    test_inputs, test_targets = torch.tensor(x_test, dtype=torch.float32), torch.tensor(y_test)

    model = PlainNet(32) if net == "plain" else WineNet(32, norm_input, bias, softmax_dim, init_std)
    loss_fn = nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=weight_decay)

    def validate() -> tuple[float, float]:
        model.eval()
        with torch.no_grad():
            output = model(test_inputs)
        if back_to_train:
            model.train()
        return loss_fn(output, test_targets).item(), (output.argmax(1) == test_targets).float().mean().item()

    with record(model, optimizer, loss_fn) as recorder:
        with recorder.evaluate("valid"):  # a sanity check before the first step
            valid_loss, accuracy = validate()
        recorder.log("valid", epoch=0, loss=valid_loss, accuracy=accuracy)
        for epoch in range(1, epochs + 1):
            for x, y in loader:
                optimizer.zero_grad()
                with recorder.step() as step:
                    loss = loss_fn(model(x), y)
                    step.backward(loss)
                optimizer.step()
            with recorder.evaluate("valid"):
                valid_loss, accuracy = validate()
            recorder.log("valid", epoch=epoch, loss=valid_loss, accuracy=accuracy)
    return -valid_loss


PROGRAM = Program(
    "wine",
    train,
    (
        Variant("batch-norm"),
        Variant("raw-into-batch-norm", {"scale_features": False, "norm_input": True, "rate": 1e-3, "epochs": 120}),
        Variant("full-batch", {"batch": 118, "epochs": 300, "rate": 0.05}),
        Variant("weight-decay", {"weight_decay": 5e-3, "net": "plain"}),
        Variant("plain-net", {"net": "plain"}),
        Variant("raw", {"net": "plain", "scale_features": False}, "unnormalised-inputs", "plain-net"),
        Variant("batch-of-2", {"batch": 2, "epochs": 8}, "small-batch-norm", "batch-norm"),
        Variant(
            "never-back-to-train",
            {"scale_features": False, "norm_input": True, "back_to_train": False, "rate": 1e-3, "epochs": 120},
            "batch-norm-mode",
            "raw-into-batch-norm",
        ),
        Variant("softmax-over-batch", {"softmax_dim": 0}, "wrong-dimension", "batch-norm"),
        Variant("sorted-by-class", {"sort": True}, "unshuffled", "batch-norm"),
        Variant("bias", {"bias": True}, "bias-before-batch-norm", "batch-norm"),
    ),
)
