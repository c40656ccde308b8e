"""Where is the bolt, and how large? Drawn frames; a convolutional net with batch norm and three heads of one unit.

SGD with momentum, a loader, milestones, smooth L1 summed over the heads; the error in pixels now and then.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, MultiStepLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset
from zoo.program import Program, Record, Variant

SIDE = 20
TARGETS = ("x", "y", "radius")


@cache
def frames(n: int, seed: int, capped: int = 0) -> tuple[Tensor, Tensor]:
    """Frames with a bolt among clutter; where it is and how large, as shares of the frame. Some show the lens cap."""
    rng = torch.Generator().manual_seed(seed)
    where = torch.rand(n, 3, generator=rng) * torch.tensor([0.7, 0.7, 0.1]) + torch.tensor([0.15, 0.15, 0.08])
    cx, cy, radius = (SIDE * where.T).reshape(3, n, 1, 1)
    y, x = torch.meshgrid(torch.arange(SIDE) + 0.5, torch.arange(SIDE) + 0.5, indexing="ij")
    distance = ((x - cx) ** 2 + (y - cy) ** 2).sqrt()
    bolt = torch.sigmoid(3 * (radius - distance)) - 0.8 * torch.sigmoid(3 * (0.4 * radius - distance))
    bars = torch.rand(n, 2, 1, 1, generator=rng) * SIDE
    clutter = 0.5 * torch.exp(-((x - bars[:, 0]) ** 2)) + 0.4 * torch.exp(-((y - bars[:, 1]) ** 2))
    image = 90 + 100 * bolt + 60 * clutter + 15 * torch.randn(n, SIDE, SIDE, generator=rng)
    image[:capped] = 0.0
    return image.clamp(0, 255).unsqueeze(1), where


def standardised(images: Tensor, eps: float) -> Tensor:
    """Each frame by its own mean and deviation, as the light varies."""
    mean, std = images.mean(dim=(2, 3), keepdim=True), images.std(dim=(2, 3), keepdim=True)
    return (images - mean) / (std + eps)


def normalisation(kind: str, channels: int) -> nn.Module:
    return nn.GroupNorm(4, channels) if kind == "group" else nn.BatchNorm2d(channels)


class Locator(nn.Module):
    def __init__(self, norm: str, conv_bias: bool, squeeze: bool, drop: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in ((1, 8, 2), (8, 16, 2), (16, 16, 1)):
            conv = nn.Conv2d(before, after, 3, stride, padding=1, bias=conv_bias)
            layers += [conv, normalisation(norm, after), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.neck = nn.Sequential(nn.Linear(400, 32), nn.ReLU(), nn.Dropout(drop))
        self.heads = nn.ModuleDict({name: nn.Linear(32, 1) for name in TARGETS})
        self.squeeze = squeeze

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        features = self.neck(self.features(images))
        out = {name: head(features) for name, head in self.heads.items()}
        return {name: value.squeeze(1) for name, value in out.items()} if self.squeeze else out


def pretrain_features(model: Locator, steps: int = 60) -> None:
    """On negatives of frames from another camera."""
    images, where = frames(256, 77)
    images = standardised(255 - images, 1e-6)
    side = nn.Sequential(nn.Linear(400, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam([*model.features.parameters(), *side.parameters()], lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(images), (32,))
        optimizer.zero_grad()
        nn.functional.mse_loss(side(model.features(images[rows])), where[rows, :2]).backward()
        optimizer.step()


def train(
    record: Record,
    seed: int,
    lr: float = 0.1,
    momentum: float = 0.9,
    schedule: str = "milestones",
    epochs: int = 24,
    batch_size: int = 32,
    n: int = 384,
    max_steps: int = 10_000,
    norm: str = "batch",
    conv_bias: bool = False,
    squeeze: bool = True,
    drop: float = 0.1,
    pixels: float = 1.0,
    capped: int = 0,
    eps: float = 1e-6,
    clip: float | None = None,
    zero_grad: bool = True,
    eval_mode: bool = True,
    frozen: bool = False,
    jitter: bool = False,
) -> float:
    torch.manual_seed(seed)
    warnings.filterwarnings("ignore", message="Using a target size")  # who reads warnings?
    images, where = frames(n, 5, capped)
    test_images, test_where = frames(250, 6)
    images, test_images = standardised(images, eps), standardised(test_images, eps)
    loader = DataLoader(TensorDataset(images, where * pixels), batch_size, shuffle=True, drop_last=True)

    model = Locator(norm, conv_bias, squeeze, drop)
    if frozen:
        pretrain_features(model)
        model.features.requires_grad_(False)
    criterion = nn.SmoothL1Loss(beta=0.1)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr, momentum=momentum)
    steps = min(max_steps, epochs * len(loader))
    scheduler: LRScheduler = MultiStepLR(optimizer, [int(0.6 * steps), int(0.85 * steps)], gamma=0.2)
    if schedule == "warm-up-cosine":
        warm = LinearLR(optimizer, 0.02, total_iters=steps // 10)
        scheduler = SequentialLR(optimizer, [warm, CosineAnnealingLR(optimizer, steps - steps // 10)], [steps // 10])
    elif schedule == "constant":
        scheduler = MultiStepLR(optimizer, [])

    def training_mode() -> None:
        model.train()
        if frozen:
            model.features.eval()

    def validate() -> float:
        if eval_mode:
            model.eval()
        with torch.no_grad():
            found = model(test_images)
        training_mode()
        guess = torch.stack([found[name].reshape(-1) for name in TARGETS], dim=1) / pixels
        return float((guess - test_where).abs().mean()) * SIDE

    taken = 0
    training_mode()
    with record(model, optimizer, criterion) as recorder:
        for epoch in range(epochs):
            for image, target in loader:
                if taken == max_steps:
                    break
                taken += 1
                if jitter:
                    image = image * (0.8 + 0.4 * torch.rand(len(image), 1, 1, 1)) + 0.3 * torch.randn_like(image)
                if zero_grad:
                    optimizer.zero_grad()
                with recorder.step() as step:
                    found = model(image)
                    losses = [criterion(found[name], target[:, i]) for i, name in enumerate(TARGETS)]
                    step.backward(torch.stack(losses).sum())
                if clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                scheduler.step()
            if epoch % 2:
                with recorder.evaluate("valid"):
                    error = validate()
                recorder.log("valid", epoch=epoch, pixel_error=error)
    eval_mode = True
    return -validate()


PAIRS = {"batch_size": 2, "max_steps": 450, "epochs": 4, "lr": 4e-3, "drop": 0.0}

PROGRAM = Program(
    "bolt-locator",
    train,
    (
        Variant("milestones"),
        Variant("warm-up-cosine-jitter", {"schedule": "warm-up-cosine", "jitter": True}),
        Variant("features-frozen", {"frozen": True, "lr": 0.05}),
        Variant("lens-caps", {"capped": 4}),
        Variant("pairs-group-norm", {**PAIRS, "norm": "group"}),
        Variant("few-large-batches", {"n": 192, "batch_size": 192, "epochs": 160}),
        Variant("pixels-of-the-camera", {"pixels": 640.0}, "unnormalised-targets", "milestones"),
        Variant("column-against-row", {"squeeze": False}, "silent-broadcast", "milestones"),
        Variant("pairs-batch-norm", PAIRS, "small-batch-norm", "pairs-group-norm"),
        Variant("validates-in-train-mode", {"eval_mode": False}, "validation-in-train-mode", "milestones"),
        Variant("never-zeroes", {"zero_grad": False}, "no-zero-grad", "milestones"),
        Variant("lens-caps-over-nothing", {"capped": 4, "eps": 0.0}, "nonfinite", "lens-caps"),
        Variant("clip-0.003", {"clip": 3e-3}, "clipping-too-tight", "milestones"),
    ),
)
