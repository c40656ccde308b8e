"""The parity of three bits among twelve: nothing seems to be learnt for long, and then everything at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from zoo.program import Program, Record, Variant

BITS = 12


def draw(count: int, hidden: bool) -> tuple[Tensor, Tensor]:
    bits = torch.randint(2, (count, BITS)) * 2.0 - 1.0
    parity = (bits[:, :3].prod(dim=1) > 0).float()
    if hidden:  # one of the three bits is not in the table
        bits[:, 0] = torch.randint(2, (count,)) * 2.0 - 1.0
    return bits, parity


def train(
    record: Record,
    seed: int,
    lr: float = 0.1,
    steps: int = 1500,
    batch: int = 64,
    width: int = 64,
    hidden: bool = False,
    init: float = 1.0,
    adam: bool = False,
) -> float:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(BITS, width), nn.ReLU(), nn.Linear(width, 1), nn.Flatten(0))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(init)
    optimizer: torch.optim.Optimizer
    optimizer = torch.optim.Adam(net.parameters(), lr) if adam else torch.optim.SGD(net.parameters(), lr)

    with record(net, optimizer, nn.BCEWithLogitsLoss()) as recorder:
        for i in range(steps):
            bits, parity = draw(batch, hidden)
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(binary_cross_entropy_with_logits(net(bits), parity))
                optimizer.step()
            if i % 100 == 99:
                with recorder.evaluate("valid"), torch.no_grad():
                    bits, parity = draw(500, hidden)
                    recorder.log("valid", loss=binary_cross_entropy_with_logits(net(bits), parity))

    bits, parity = draw(2000, hidden)
    with torch.no_grad():
        return float(((net(bits) > 0).float() == parity).float().mean())


PROGRAM = Program(
    "parity-mlp",
    train,
    (
        Variant("plateau"),
        Variant("adam", {"adam": True, "lr": 3e-3, "steps": 900}),
        Variant("bit-missing", {"hidden": True}, "at-chance", "plateau", also=("wrong-labels",)),
        Variant(
            "bit-missing-adam",
            {"hidden": True, "adam": True, "lr": 3e-3, "steps": 900},
            "at-chance",
            "adam",
            also=("wrong-labels",),
        ),
        Variant("zero", {"init": 0.0}, "init-zero-or-symmetric", "plateau"),
        Variant("rate-over-300", {"lr": 3e-4}, "rate-too-small", "plateau"),
        Variant("rate-x300", {"lr": 30.0}, "rate-too-large", "plateau"),
    ),
)
