"""A small student learns from a large teacher's softened answers, with loss scaling as for half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.datasets import make_blobs
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo.program import Program, Variant

CLASSES = 6


def clusters(seed: int) -> tuple[Tensor, Tensor]:
    """Two clouds of points for each class, in twelve dimensions."""
    points, clouds = make_blobs(3000, n_features=12, centers=2 * CLASSES, cluster_std=5.0, random_state=seed)
    values = torch.tensor(points, dtype=torch.float32)
    return (values - values.mean(0)) / values.std(0), torch.tensor(clouds) % CLASSES


def trained_teacher(x: Tensor, y: Tensor) -> nn.Sequential:
    teacher = nn.Sequential(nn.Linear(12, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=2e-3, weight_decay=0.05)
    for _ in range(300):
        rows = torch.randint(len(x), (128,))
        optimizer.zero_grad()
        F.cross_entropy(teacher(x[rows]), y[rows]).backward()
        optimizer.step()
    return teacher.eval().requires_grad_(False)


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    temperature: float = 3.0,
    hard_share: float = 0.2,
    softmax_dim: int = 1,
    scaled: bool = False,
    unscale_first: bool = True,
    rate: float = 0.1,
    clip: float | None = None,
    steps: int = 700,
    batch: int = 64,
) -> float:
    """Accuracy of the student on 1000 points that neither network saw."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = clusters(seed)
    x_train, y_train, x_test, y_test = x[:2000], y[:2000], x[2000:], y[2000:]
    teacher = trained_teacher(x_train, y_train)

    student = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, CLASSES))
    optimizer = torch.optim.SGD(student.parameters(), lr=rate, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, enabled=scaled)
    divergence = nn.KLDivLoss(reduction="batchmean")

    with record(student, optimizer, divergence) as recorder:
        for it in range(steps):
            rows = torch.randint(len(x_train), (batch,))
            optimizer.zero_grad()
            with recorder.step() as step:
                logits = student(x_train[rows])
                wanted = F.softmax(teacher(x_train[rows]) / temperature, dim=softmax_dim)
                soft = divergence(F.log_softmax(logits / temperature, dim=softmax_dim), wanted) * temperature**2
                loss = (1 - hard_share) * soft
                if hard_share:
                    loss = loss + hard_share * F.cross_entropy(logits, y_train[rows])
                if scaled:
                    step.backward(loss, scaler=scaler)
                else:
                    step.backward(loss)
            if scaled and unscale_first:
                scaler.unscale_(optimizer)
            if clip is not None:
                nn.utils.clip_grad_norm_(student.parameters(), clip)
            if scaled:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            if it % 70 == 69:
                with recorder.evaluate("valid"), torch.no_grad():
                    answers = student(x_test)
                accuracy = float((answers.argmax(1) == y_test).float().mean())
                recorder.log("valid", accuracy=accuracy)
    return accuracy


PROGRAM = Program(
    "distil",
    train,
    (
        Variant("soft-and-hard"),
        Variant("soft-only", {"hard_share": 0.0}),
        Variant("scaled", {"scaled": True, "clip": 1.0}),
        Variant(
            "clipped-before-unscaling",
            {"scaled": True, "clip": 1.0, "unscale_first": False},
            "clipping-before-unscaling",
            "scaled",
        ),
        Variant("softmax-over-batch", {"softmax_dim": 0, "hard_share": 0.0}, "wrong-dimension", "soft-only"),
    ),
)
