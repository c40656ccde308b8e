"""Handwritten digits, moved about and mixed up: a small network of depthwise and pointwise convolutions, one cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from zoo.program import Program, Record, Variant


class Images:
    """Batches of images, each moved by up to a pixel; rare classes may be rarer still."""

    def __init__(self, size: int, moved: bool, rare: float = 1.0, order: str = "random") -> None:
        bunch = load_digits()
        x = torch.tensor(bunch.images / 16.0, dtype=torch.float32)[:, None]
        y = torch.tensor(bunch.target)
        chosen = torch.tensor(np.random.default_rng(7).permutation(len(x)))
        self.test = x[chosen[1100:]] - 0.3, y[chosen[1100:]]
        train = chosen[:1100]
        if rare < 1:  # of all digits but one, most were lost
            keep = (y[train] == 3) | (torch.tensor(np.random.default_rng(8).random(len(train))) < rare)
            train = train[keep].repeat(len(train) // int(keep.sum()))
        if order == "sorted":
            train = train[y[train].argsort(stable=True)]
        self.train, self.size, self.moved, self.order = (x[train] - 0.3, y[train]), size, moved, order

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = self.train
        indices = torch.arange(len(x)) if self.order == "sorted" else torch.randperm(len(x))
        for chosen in indices.split(self.size):
            if len(chosen) == self.size:
                images = x[chosen]
                if self.moved:
                    down, right = torch.randint(-1, 2, (2,)).tolist()
                    images = images.roll((down, right), dims=(2, 3))
                yield images, y[chosen]

    def __len__(self) -> int:
        return len(self.train[0]) // self.size


def norm(kind: str, channels: int) -> nn.Module:
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(4, channels) if kind == "group" else nn.Identity()


class Block(nn.Module):
    """A depthwise and a pointwise convolution, beside a shortcut."""

    def __init__(self, channels: int, kind: str, bias: bool) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=bias)
        self.norm1 = norm(kind, channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=bias)
        self.norm2 = norm(kind, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.depthwise(x)))
        return functional.relu(x + self.norm2(self.pointwise(y)))


class Net(nn.Module):
    def __init__(self, kind: str, channels: int, bias: bool) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, stride=2, padding=1, bias=bias)
        self.norm = norm(kind, channels)
        self.blocks = nn.Sequential(Block(channels, kind, bias), Block(channels, kind, bias))
        self.hidden = nn.Linear(4 * channels, 32)
        self.last_norm = nn.BatchNorm1d(32) if kind == "batch" else nn.LayerNorm(32)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.stem(x)))
        x = functional.avg_pool2d(self.blocks(x), 2).flatten(1)
        logits: Tensor = self.head(functional.relu(self.last_norm(self.hidden(x))))
        return logits


class Mixup(nn.Module):
    """The loss of images that are mixed in pairs."""

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.cross_entropy = nn.CrossEntropyLoss(label_smoothing=smoothing)

    def forward(self, logits: Tensor, one: Tensor, other: Tensor, share: float) -> Tensor:
        mixed: Tensor = share * self.cross_entropy(logits, one) + (1 - share) * self.cross_entropy(logits, other)
        return mixed


def balanced_accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        right = (model(images).argmax(dim=1) == labels).float()
    return float(torch.stack([right[labels == digit].mean() for digit in range(10)]).mean())


def train(
    record: Record,
    seed: int,
    norm_kind: str = "batch",
    channels: int = 16,
    bias: bool = False,
    peak: float = 0.15,
    cycle: str = "by-batch",
    size: int = 64,
    epochs: int = 15,
    mixup: float = 0.0,
    swapped: bool = False,
    smoothing: float = 0.1,
    moved: bool = True,
    rare: float = 1.0,
    order: str = "random",
    modes: str = "right",
    offset: float = 0.0,
    head_times: float = 1.0,
    decay: float = 5e-4,
) -> float:
    torch.manual_seed(seed)
    images = Images(size, moved, rare, order)
    model = Net(norm_kind, channels, bias)
    if offset:
        with torch.no_grad():
            model.last_norm.bias.add_(offset)
    rest: Iterable[nn.Parameter] = [p for name, p in model.named_parameters() if not name.startswith("head")]
    groups = [{"params": rest}, {"params": model.head.parameters()}]
    optimizer = torch.optim.SGD(groups, lr=peak, momentum=0.9, nesterov=True, weight_decay=decay)
    cycles = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [peak, peak * head_times], epochs=epochs, steps_per_epoch=len(images), cycle_momentum=False
    )
    criterion = Mixup(smoothing)

    with record(model, optimizer, criterion) as recorder:
        for epoch in range(epochs):
            if modes == "right" or epoch == 0:
                model.train()
            for x, y in images:
                order_, share = torch.randperm(len(x)), 1.0
                if mixup:
                    share = float(torch.distributions.Beta(mixup, mixup).sample())
                    x = share * x + (1 - share) * x[order_]
                optimizer.zero_grad(set_to_none=True)
                with recorder.step() as step:
                    first, second = (y[order_], y) if swapped else (y, y[order_])
                    step.backward(criterion(model(x), first, second, share))
                optimizer.step()
                if cycle == "by-batch":
                    cycles.step()
            if cycle == "by-epoch":
                cycles.step()
            if modes != "never-evaluates":
                model.eval()
            with recorder.evaluate("valid"):
                accuracy = balanced_accuracy(model, *images.test)
            with torch.no_grad():
                loss = functional.cross_entropy(model(images.test[0]), images.test[1])
            recorder.log("valid", epoch=epoch, loss=loss, accuracy=accuracy)
    model.eval()
    return balanced_accuracy(model, *images.test)


PROGRAM = Program(
    "digits-depthwise",
    train,
    (
        Variant("batch-norm"),
        Variant("group-norm", {"norm_kind": "group"}),
        Variant("mixup", {"mixup": 0.4, "smoothing": 0.0}),
        Variant("half-the-images", {"size": 550, "epochs": 75, "peak": 0.3}),
        Variant("as-they-are", {"moved": False, "smoothing": 0.0, "epochs": 25}),
        Variant("by-twos", {"norm_kind": "group", "size": 2, "peak": 0.03, "epochs": 1, "moved": False}),
        Variant(
            "batch-norm-by-twos", {"size": 2, "peak": 0.03, "epochs": 1, "moved": False}, "small-batch-norm", "by-twos"
        ),
        Variant("stays-in-eval-mode", {"modes": "evaluates-for-good"}, "batch-norm-mode", "batch-norm"),
        Variant("biases-before-norms", {"bias": True}, "bias-before-batch-norm", "batch-norm"),
        Variant("shift-of-minus-6", {"offset": -6.0}, "dead-units", "batch-norm"),
        Variant("cycle-by-epoch", {"cycle": "by-epoch", "epochs": 8}, "schedule-rhythm", "batch-norm"),
        Variant("threes-mostly", {"rare": 0.02}, "class-imbalance", "batch-norm"),
        Variant("mixup-swapped", {"mixup": 0.4, "smoothing": 0.0, "swapped": True}, "wrong-labels", "mixup"),
        Variant("head-rate-x300", {"head_times": 300.0}, "update-outlier", "batch-norm"),
    ),
)
