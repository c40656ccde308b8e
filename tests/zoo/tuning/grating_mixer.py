"""Gratings in noise, an MLP-mixer over patches. AdamW, warm-up and cosine by step, functional loss, clipping."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from zoo.program import Program, Record, Variant

SIDE, PATCH, CLASSES = 12, 3, 6


def gratings(count: int, noise: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Patches (count, 16, 9) of striped images, and the direction of the stripes."""
    often = torch.tensor([0.35, 0.2, 0.15, 0.12, 0.1, 0.08])
    label = torch.multinomial(often, count, replacement=True, generator=rng)
    angle = label * math.pi / CLASSES
    phase, grid = 2 * math.pi * torch.rand(count, 1, 1, generator=rng), torch.arange(SIDE, dtype=torch.float32)
    along = grid[None, :, None] * angle.cos()[:, None, None] + grid[None, None, :] * angle.sin()[:, None, None]
    image = torch.sin(1.3 * along + phase) + noise * torch.randn(count, SIDE, SIDE, generator=rng)
    cells = image.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)
    return cells.reshape(count, -1, PATCH * PATCH), label


class Block(nn.Module):
    """Mixes patches, then channels."""

    def __init__(self, patches: int, width: int, residual: bool, act: type[nn.Module], dropout: float) -> None:
        super().__init__()
        self.residual = residual
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, 32), act(), nn.Dropout(dropout), nn.Linear(32, patches))
        self.within = nn.Sequential(nn.Linear(width, 48), act(), nn.Dropout(dropout), nn.Linear(48, width))

    def forward(self, x: Tensor) -> Tensor:
        if not self.residual:
            x = torch.sigmoid(self.across(x.transpose(1, 2)).transpose(1, 2))
            return torch.sigmoid(self.within(x))
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.within(self.norm2(x))
        return mixed


class Mixer(nn.Module):
    """Embedding, blocks, pooling by learnt weights, head."""

    def __init__(
        self, depth: int, residual: bool = True, dropout: float = 0.0, registered: bool = True, pools_over: int = 1
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(PATCH * PATCH, 24)
        act = nn.GELU if residual else nn.Sigmoid
        blocks = [Block((SIDE // PATCH) ** 2, 24, residual, act, dropout) for _ in range(depth)]
        self.blocks = nn.ModuleList(blocks) if registered else blocks
        self.norm = nn.LayerNorm(24) if residual else nn.Identity()
        self.weigh = nn.Linear(24, 1)
        self.head = nn.Linear(24, CLASSES)
        self.pools_over = pools_over

    def forward(self, patches: Tensor) -> Tensor:
        x = self.embed(patches)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        share = self.weigh(x).softmax(dim=self.pools_over)
        pooled: Tensor = self.head((share * x).sum(dim=1))
        return pooled


def initialise(model: Mixer, how: str) -> None:
    for name, parameter in model.named_parameters():
        if how == "constant" and parameter.dim() == 2:
            nn.init.constant_(parameter, 0.05)
        elif how == "zero-branches" and name.endswith(("across.3.weight", "within.3.weight")):
            nn.init.zeros_(parameter)


def warm_up_and_cosine(warm_up: int, total: int) -> Callable[[int], float]:
    def factor(at: int) -> float:
        if at < warm_up:
            return (at + 1) / warm_up
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (at - warm_up) / (total - warm_up))))

    return factor


def train(
    record: Record,
    seed: int,
    peak: float = 0.02,
    decay: float = 0.02,
    depth: int = 2,
    epochs: int = 10,
    size: int = 50,
    init: str = "default",
    steps_by: str = "batch",
    smoothing: float = 0.0,
    clip: float = 1.0,
    curriculum: bool = False,
    trains: str = "all",
    log_softmax_over: int = 1,
    **model: bool | float | int,
) -> float:
    rng = torch.Generator().manual_seed(20)
    x, y = gratings(1200, 1.5, rng)
    easy, _ = gratings(1200, 0.0, torch.Generator().manual_seed(20))
    test_x, test_y = gratings(900, 1.5, rng)
    torch.manual_seed(seed)
    mixer = Mixer(depth, **model)  # type: ignore[arg-type]
    initialise(mixer, init)
    if trains == "head-and-norms":
        for name, parameter in mixer.named_parameters():
            parameter.requires_grad_(name.startswith(("head", "weigh", "norm", "blocks.1")))
    trained = [parameter for parameter in mixer.parameters() if parameter.requires_grad]
    adamw = torch.optim.AdamW(trained, lr=peak, weight_decay=decay, betas=(0.9, 0.98))
    total = epochs * (len(x) // size)
    schedule = torch.optim.lr_scheduler.LambdaLR(adamw, warm_up_and_cosine(total // 8, total))

    with record(mixer, adamw) as recorder:
        for epoch in range(epochs):
            mixer.train()
            shown = x if not curriculum or epoch > epochs // 3 else (x + easy) / 2
            for rows in torch.randperm(len(x)).split(size):
                adamw.zero_grad(set_to_none=True)
                with recorder.step() as step:
                    logits = mixer(shown[rows])
                    if log_softmax_over == 1:
                        loss = functional.cross_entropy(logits, y[rows], label_smoothing=smoothing)
                    else:
                        loss = functional.nll_loss(logits.log_softmax(dim=log_softmax_over), y[rows])
                    step.backward(loss)
                    nn.utils.clip_grad_norm_(trained, clip)
                adamw.step()
                if steps_by == "batch":
                    schedule.step()
            if steps_by == "epoch":
                schedule.step()
            mixer.eval()
            with recorder.evaluate("valid"), torch.no_grad():
                right = torch.cat([mixer(p).argmax(1) for p in test_x.split(300)]) == test_y
            recorder.log("valid", epoch=epoch, accuracy=right.float().mean())
    return float(right.float().mean())


PROGRAM = Program(
    "grating-mixer",
    train,
    (
        Variant("plain"),
        Variant("label-smoothing", {"smoothing": 0.1}),
        Variant("zero-branches", {"init": "zero-branches"}),
        Variant("clips-every-step", {"clip": 0.1}),
        Variant("curriculum", {"curriculum": True}),
        Variant("half-frozen", {"trains": "head-and-norms", "peak": 0.03}),
        Variant("schedule-by-epoch", {"steps_by": "epoch"}, "schedule-rhythm", "plain", also=("rate-too-small",)),
        Variant("constant-init", {"init": "constant"}, "init-zero-or-symmetric", "plain"),
        Variant("unregistered-blocks", {"registered": False}, "wiring", "plain"),
        Variant("pools-over-batch", {"pools_over": 0}, "wrong-dimension", "plain"),
        Variant("log-softmax-over-batch", {"log_softmax_over": 0}, "wrong-dimension", "plain"),
        Variant("decay-x500", {"decay": 10.0}, "too-much-regularisation", "plain"),
        Variant("rate-x50", {"peak": 1.0}, "rate-too-large", "plain"),
        Variant("deep-sigmoids", {"depth": 5, "residual": False}, "vanishing-gradients", "plain"),
    ),
)
