"""Cells under a microscope, made up: a small U-Net marks their pixels. Batch norm, Adam, cross entropy plus Dice.

A branch that pools the whole picture joins at the bottom. Validation is logged as Dice after each epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, logsigmoid
from zoo.program import Program, Record, Variant

SIZE = 16


def pictures(count: int, seed: int, radius: float, cells: int) -> tuple[Tensor, Tensor]:
    """Images and masks (count, 1, SIZE, SIZE): bright discs on a slope of light, with dirt and noise."""
    draw = np.random.default_rng(seed)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    images, masks = np.zeros((count, 1, SIZE, SIZE)), np.zeros((count, 1, SIZE, SIZE))
    for image, mask in zip(images[:, 0], masks[:, 0], strict=True):
        for _ in range(draw.integers(1, cells + 1)):
            y, x = draw.uniform(0, SIZE, 2)
            mask[(rows - y) ** 2 + (columns - x) ** 2 <= (radius * draw.uniform(0.8, 1.3)) ** 2] = 1
        slope = draw.normal(size=2) @ np.stack([rows, columns]).reshape(2, -1) / SIZE
        image += mask * draw.uniform(0.8, 1.4) + slope.reshape(SIZE, SIZE) + draw.normal(0, 0.35, image.shape)
        image[draw.integers(SIZE), :] += 1.0  # a scratch
    return torch.tensor(images, dtype=torch.float32), torch.tensor(masks, dtype=torch.float32)


def norm_of(kind: str, channels: int) -> nn.Module:
    return nn.GroupNorm(4, channels) if kind == "group" else nn.BatchNorm2d(channels)


def double(inside: int, outside: int, norm: str, bias: bool) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=bias),
        norm_of(norm, outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1, bias=bias),
        norm_of(norm, outside),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, norm: str, bias: bool, listed: bool, sigmoid: bool, dropout: float) -> None:
        super().__init__()
        self.enter = double(1, 8, norm, bias)
        self.down = nn.ModuleList([double(8, 16, norm, bias), double(16, 16, norm, bias)])
        self.scene = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 16, 1, bias=bias), norm_of(norm, 16), nn.ReLU(inplace=True)
        )
        ups = [double(16 + 16, 16, norm, bias), double(16 + 8, 8, norm, bias)]
        self.up = ups if listed else nn.ModuleList(ups)
        self.drop = nn.Dropout2d(dropout)
        self.exit = nn.Conv2d(8, 1, 1)
        self.sigmoid = sigmoid

    def forward(self, image: Tensor) -> Tensor:
        kept = [self.enter(image)]
        for block in self.down:
            kept.append(block(nn.functional.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        x = self.drop(x + self.scene(x))
        for block in self.up:
            x = block(torch.cat([interpolate(x, scale_factor=2.0), kept.pop()], dim=1))
        out: Tensor = self.exit(x)
        return out.sigmoid() if self.sigmoid else out


class BceDice(nn.Module):
    """Cross entropy of pixels plus one minus the soft Dice coefficient of each picture."""

    def __init__(self, bce: float, dice: float, squeezes: bool) -> None:
        super().__init__()
        self.bce, self.dice, self.squeezes = bce, dice, squeezes

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        if self.squeezes:
            mask = mask.squeeze(1)
        entropy = -(mask * logsigmoid(logits) + (1 - mask) * logsigmoid(-logits)).mean()
        p = logits.sigmoid()
        overlap = (p * mask).flatten(1).sum(dim=1)
        total = p.flatten(1).sum(dim=1) + mask.flatten(1).sum(dim=1)
        return self.bce * entropy + self.dice * (1 - (2 * overlap + 1) / (total + 1)).mean()


def dice(logits: Tensor, mask: Tensor, threshold: float = 0.0) -> float:
    found = (logits > threshold).float()
    return float((2 * (found * mask).sum() + 1e-6) / (found.sum() + mask.sum() + 1e-6))


def batches(images: Tensor, masks: Tensor, size: int, flips: str) -> Iterator[tuple[Tensor, Tensor]]:
    for chosen in torch.randperm(len(images)).split(size):
        image, mask = images[chosen], masks[chosen]
        if flips != "none":
            turned = torch.rand(len(chosen), 1, 1, 1) < 0.5
            image = torch.where(turned, image.flip(-1), image)
            if flips == "both":
                mask = torch.where(turned, mask.flip(-1), mask)
        yield image, mask


def train(
    record: Record,
    seed: int,
    lr: float = 5e-3,
    epochs: int = 10,
    size: int = 12,
    count: int = 240,
    optimizer_name: str = "adam",
    norm: str = "batch",
    bias: bool = False,
    listed: bool = False,
    sigmoid: bool = False,
    dropout: float = 0.0,
    bce: float = 1.0,
    dice_weight: float = 1.0,
    squeezes: bool = False,
    flips: str = "both",
    radius: float = 2.6,
    cells: int = 3,
    modes: str = "right",
    freezes: int | None = None,
) -> float:
    torch.manual_seed(seed)
    images, masks = pictures(count, 5, radius, cells)
    valid_images, valid_masks = pictures(120, 6, radius, cells)
    net = UNet(norm, bias, listed, sigmoid, dropout)
    loss_fn = BceDice(bce, dice_weight, squeezes)
    steps = epochs * -(-count // size)
    optimizer: torch.optim.Optimizer
    if optimizer_name == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr)
        schedule: torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps)

    def validate() -> float:
        net.eval()
        with torch.no_grad():
            reached = dice(net(valid_images), valid_masks, 0.5 if sigmoid else 0.0)
        net.train()
        return reached

    with record(net, optimizer, loss_fn) as recorder:
        for epoch in range(epochs):
            if freezes == epoch:  # from here on only the decoder learns
                for part in (net.enter, net.down):
                    part.requires_grad_(False)
            for image, mask in batches(images, masks, size, flips):
                optimizer.zero_grad(set_to_none=True)
                with recorder.step() as step:
                    loss = loss_fn(net(image), mask)
                    step.backward(loss)
                optimizer.step()
                schedule.step()
            if modes != "validates-in-train-mode":
                net.eval()
            with recorder.evaluate("valid"), torch.no_grad():
                logits = net(valid_images)
            recorder.log("valid", epoch=epoch, dice=dice(logits, valid_masks, 0.5 if sigmoid else 0.0))
            if modes != "stays-in-eval":
                net.train()
    return validate()


ONE_CYCLE = {"optimizer_name": "sgd", "lr": 0.3}
SMALL = {"radius": 1.0, "cells": 2}

PROGRAM = Program(
    "unet-cells",
    train,
    (
        Variant("bce-dice"),
        Variant("sgd-one-cycle", ONE_CYCLE),
        Variant("groups-of-two", {"norm": "group", "size": 2, "epochs": 3}),
        Variant("spatial-dropout-frozen-encoder", {"dropout": 0.2, "freezes": 6}),
        Variant("small-cells", SMALL),
        Variant("pixels-only", {"dice_weight": 0.0, "flips": "none"}),
        Variant("stays-in-eval", ONE_CYCLE | {"modes": "stays-in-eval"}, "batch-norm-mode", "sgd-one-cycle"),
        Variant(
            "sigmoid-and-logits", {"sigmoid": True, "dice_weight": 0.0, "flips": "none"}, "softmax-twice", "pixels-only"
        ),
        Variant("mask-without-channel", {"squeezes": True}, "silent-broadcast", "bce-dice"),
        Variant("flips-images-only", {"flips": "images"}, "wrong-labels", "bce-dice"),
        Variant("rewards-low-dice", {"dice_weight": -1.0}, "flipped-sign", "bce-dice"),
        Variant("decoder-in-a-list", {"listed": True}, "wiring", "bce-dice"),
        Variant(
            "validates-in-train-mode", {"modes": "validates-in-train-mode"}, "validation-in-train-mode", "bce-dice"
        ),
        Variant("small-cells-pixels-only", SMALL | {"dice_weight": 0.0, "cells": 1}, "class-imbalance", "small-cells"),
        Variant("convolutions-with-bias", {"bias": True}, "bias-before-batch-norm", "bce-dice"),
    ),
)
