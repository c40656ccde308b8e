"""Handwritten digits, a variational autoencoder. The loss is two terms, written by hand; the target is the input."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader
from zoo.program import Program, Record, Variant


class VAE(nn.Module):
    def __init__(self, deviation: str) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12))
        self.decoder = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 64))
        self.deviation = deviation

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, raw = self.encoder(x).chunk(2, dim=1)
        # By relu, the variance may be zero, which has no logarithm and whose root has no slope.
        variance = F.relu(raw) if self.deviation == "relu" else raw.exp()
        z = mean + variance.sqrt() * torch.randn_like(mean)
        return self.decoder(z), mean, variance


def elbo(model: VAE, x: Tensor, beta: float, how: str) -> tuple[Tensor, Tensor]:
    logits, mean, variance = model(x)
    if how == "own":  # cross entropy as in the book: the logarithm of a rounded zero is not finite
        p = torch.sigmoid(logits)
        reconstruction = -(x * p.log() + (1 - x) * (1 - p).log()).sum(dim=1)
    else:
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(dim=1)
    divergence = 0.5 * (mean.square() + variance - variance.log() - 1).sum(dim=1)
    return (reconstruction + beta * divergence).mean(), (reconstruction + divergence).mean()


def train(
    record: Record,
    seed: int,
    lr: float = 2e-3,
    beta: float = 1.0,
    warm_up: int = 0,
    deviation: str = "exp",
    cross_entropy: str = "torch",
    gain: float = 1.0,
    contrast: float = 1.0,
    epochs: int = 20,
) -> float:
    torch.manual_seed(seed)
    images = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    images = ((images - 0.5) * contrast + 0.5).clamp(0, 1)
    train_set, test_set = images[:1400], images[1400:]
    model = VAE(deviation)
    with torch.no_grad():
        for p in model.decoder.parameters():
            p.mul_(gain)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    loader: DataLoader[Tensor] = DataLoader(train_set, batch_size=64, shuffle=True)  # type: ignore[arg-type]

    with record(model, optimizer) as recorder:
        for epoch in range(epochs):
            weight = beta * min(1.0, epoch / warm_up) if warm_up else beta
            for x in loader:
                optimizer.zero_grad()
                with recorder.step() as step:
                    loss, _ = elbo(model, x, weight, cross_entropy)
                    step.backward(loss)
                optimizer.step()
            with torch.no_grad(), recorder.evaluate("valid"):
                loss, _ = elbo(model, test_set, weight, cross_entropy)
            recorder.log("valid", epoch=epoch, loss=loss)

    with torch.no_grad():
        return -float(torch.stack([elbo(model, test_set, 1.0, "torch")[1] for _ in range(10)]).mean())


PROGRAM = Program(
    "digits-vae",
    train,
    (
        Variant("plain"),
        Variant("beta-warm-up", {"warm_up": 8}),
        Variant("binary", {"contrast": 50.0}),
        Variant("beta-x100", {"beta": 100.0}, "too-much-regularisation", "plain"),
        Variant("variance-by-relu", {"deviation": "relu"}, "nonfinite", "plain"),
        Variant(
            "own-cross-entropy",
            {"cross_entropy": "own", "contrast": 50.0, "gain": 6.0, "lr": 0.02},
            "nonfinite",
            "binary",
        ),
        Variant("rate-x100", {"lr": 0.2}, "rate-too-large", "plain"),
        Variant("rate-over-300", {"lr": 2e-3 / 300}, "rate-too-small", "plain"),
    ),
)
