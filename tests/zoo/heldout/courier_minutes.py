"""How long a delivery takes: a table of numbers and categories, entity embeddings, SGD with Nesterov momentum.

One loop over epochs, with loaders; the losses of training and validation are logged after each.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LRScheduler, OneCycleLR, StepLR
from torch.utils.data import DataLoader, TensorDataset
from zoo.program import Program, Record, Variant

CARDINALITIES = {"depot": 12, "vehicle": 4, "weekday": 7, "weather": 5}
Table = tuple[Tensor, Tensor, Tensor]


def deliveries(rows: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, categories and minutes of deliveries."""
    rng = np.random.default_rng(seed)
    city = np.random.default_rng(99)
    speed, handling = city.uniform(14, 32, 4), city.uniform(3, 15, 12)
    rain, traffic = city.uniform(0.9, 1.5, 5), city.uniform(0.9, 1.4, 7)
    categories = np.stack([rng.integers(0, n, rows) for n in CARDINALITIES.values()], axis=1)
    depot, vehicle, weekday, weather = categories.T
    km, hour = rng.gamma(2.5, 1.6, rows), rng.uniform(7, 22, rows)
    stops, kilos = rng.poisson(2.0, rows), rng.lognormal(1.5, 0.7, rows)
    rush = 1 + 0.6 * np.exp(-((hour - 17.5) ** 2) / 3) + 0.4 * np.exp(-((hour - 8.5) ** 2) / 2)
    minutes = handling[depot] + 60 * km / speed[vehicle] * rush * rain[weather] * traffic[weekday]
    minutes += 2.5 * stops + 0.2 * kilos + noise * rng.normal(size=rows)
    return np.stack([km, hour, stops, kilos], axis=1), categories, minutes


class Tabular(nn.Module):
    """Embeddings of the categories beside the numbers, then blocks of a linear layer, batch norm and activation."""

    def __init__(self, sizes: list[int], norm: bool, activation: type[nn.Module], dropout: float, bias: bool) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(n, min(6, (n + 1) // 2)) for n in CARDINALITIES.values())
        width = 4 + sum(min(6, (n + 1) // 2) for n in CARDINALITIES.values())
        blocks: list[nn.Module] = []
        for size in sizes:
            blocks.append(nn.Linear(width, size, bias=bias or not norm))
            if norm:
                blocks.append(nn.BatchNorm1d(size))
            blocks.append(activation())
            if dropout:
                blocks.append(nn.Dropout(dropout))
            width = size
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, 1)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        embedded = [embed(categories[:, i]) for i, embed in enumerate(self.embeddings)]
        minutes: Tensor = self.head(self.blocks(torch.cat([numbers, *embedded], dim=1)))
        return minutes


def make_scheduler(optimizer: torch.optim.Optimizer, name: str, epochs: int, batches: int) -> LRScheduler:
    rate = float(optimizer.param_groups[0]["lr"])
    if name == "one-cycle":
        return OneCycleLR(optimizer, max_lr=rate, total_steps=epochs * batches)
    if name == "cosine":
        return CosineAnnealingLR(optimizer, T_max=epochs)
    if name == "step":
        return StepLR(optimizer, step_size=max(1, epochs // 3), gamma=0.3)
    return ConstantLR(optimizer, factor=1.0)


def train(
    record: Record,
    seed: int,
    rate: float = 0.03,
    momentum: float = 0.9,
    weight_decay: float = 1e-4,
    schedule: str = "step",
    stepped: str = "epoch",
    batch: int = 50,
    epochs: int = 12,
    rows: int = 1250,
    noise: float = 4.0,
    sizes: tuple[int, ...] = (48, 24),
    norm: bool = True,
    activation: type[nn.Module] = nn.ReLU,
    dropout: float = 0.0,
    bias: bool = False,
    huber: bool = False,
    clip: float | None = None,
    unit: float | None = None,
    squeezed: bool = True,
) -> float:
    torch.manual_seed(seed)
    (numbers, categories, minutes), held_out = deliveries(rows, noise, 1), deliveries(600, noise, 2)
    mean, std = numbers.mean(axis=0), numbers.std(axis=0)
    centre, scale = (minutes.mean(), minutes.std()) if unit is None else (0.0, unit)

    def as_tensors(table: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Table:
        return (
            torch.tensor((table[0] - mean) / std, dtype=torch.float32),
            torch.tensor(table[1]),
            torch.tensor((table[2] - centre) / scale, dtype=torch.float32),
        )

    valid_numbers, valid_categories, valid_minutes = as_tensors(held_out)
    data = TensorDataset(*as_tensors((numbers, categories, minutes)))
    loader = DataLoader(data, batch_size=batch, shuffle=True, drop_last=rows > batch)

    model = Tabular(list(sizes), norm, activation, dropout, bias)
    loss_fn: nn.Module = nn.HuberLoss() if huber else nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum, weight_decay=weight_decay, nesterov=True)
    scheduler = make_scheduler(optimizer, schedule, epochs, len(loader))

    with record(model, optimizer, loss_fn, hparams={"rate": rate, "batch": batch, "seed": seed}) as recorder:
        for epoch in range(epochs):
            model.train()
            losses = []
            for x, c, y in loader:
                optimizer.zero_grad()
                with recorder.step() as step:
                    predicted = model(x, c)
                    if squeezed:
                        predicted = predicted.squeeze(1)
                    loss = loss_fn(predicted, y)
                    step.backward(loss)
                    if clip is not None:
                        nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                losses.append(loss.detach())
                if stepped == "batch":
                    scheduler.step()
            if stepped == "epoch":
                scheduler.step()

            model.eval()
            with torch.no_grad(), recorder.evaluate("valid"):
                predicted = model(valid_numbers, valid_categories).squeeze(1)
            recorder.log("train", epoch=epoch, loss=torch.stack(losses).mean())
            recorder.log("valid", epoch=epoch, loss=loss_fn(predicted, valid_minutes))

    squared = (predicted - valid_minutes).square().mean()
    return float(1 - squared / valid_minutes.var())


DEEP = {"sizes": (32,) * 6, "norm": False, "schedule": "constant"}

PROGRAM = Program(
    "courier-minutes",
    train,
    (
        Variant("plain"),
        Variant("huber-one-cycle", {"huber": True, "schedule": "one-cycle", "stepped": "batch", "rate": 0.1}),
        Variant("whole-table-a-step", {"batch": 1250, "epochs": 120, "rate": 0.1, "sizes": (16,)}),
        Variant("clipped-on-every-step", {"clip": 0.1, "rate": 0.05}),
        Variant("much-noise-dropout", {"noise": 18.0, "dropout": 0.2, "schedule": "cosine"}),
        Variant("deep-relu", DEEP),
        Variant("in-days", {"unit": 24 * 60.0}, "unnormalised-targets", "plain"),
        Variant("column-against-row", {"squeezed": False}, "silent-broadcast", "plain"),
        Variant("pairs", {"batch": 2, "rows": 900, "epochs": 1, "rate": 0.006}, "small-batch-norm", "plain"),
        Variant("steps-by-batch", {"stepped": "batch"}, "schedule-rhythm", "plain", also=("rate-decayed",)),
        Variant(
            "few-rows-wide",
            {"rows": 50, "batch": 25, "sizes": (256, 256), "epochs": 120, "weight_decay": 0.0, "rate": 0.01},
            "overfitting",
            "plain",
        ),
        Variant("deep-sigmoid", DEEP | {"activation": nn.Sigmoid}, "vanishing-gradients", "deep-relu"),
        Variant("clip-5e-3", {"clip": 5e-3}, "clipping-too-tight", "clipped-on-every-step"),
    ),
)
