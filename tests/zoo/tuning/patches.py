"""A small vision transformer finds in which quarter of a picture the one bright checkerboard is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zoo.program import Program, Variant

PATCH, GRID, CLASSES = 3, 4, 4


def pictures(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures (count, 12, 12): a checkerboard patch, three plain patches that distract, and noise."""
    board = (torch.arange(PATCH * PATCH) % 2).float().reshape(PATCH, PATCH) * 3 - 1.5
    places = torch.rand(count, GRID * GRID, generator=generator).argsort(1)[:, :4]
    image = torch.randn(count, GRID * GRID, PATCH, PATCH, generator=generator) * 0.7
    each = torch.arange(count)
    image[each, places[:, 0]] += board
    for distractor in (1, 2, 3):
        image[each, places[:, distractor]] -= board
    row, column = places[:, 0] // GRID, places[:, 0] % GRID
    image = image.reshape(count, GRID, GRID, PATCH, PATCH).transpose(2, 3).reshape(count, GRID * PATCH, GRID * PATCH)
    return image, 2 * (row // 2) + column // 2


class Layer(nn.Module):
    """Pre-norm attention and perceptron; an adapter of low rank on the values when asked for."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.adapter: nn.Module | None = None

    def adapt(self, rank: int) -> None:
        down, up = (
            nn.Linear(self.proj.in_features, rank, bias=False),
            nn.Linear(rank, self.proj.out_features, bias=False),
        )
        nn.init.zeros_(up.weight)
        self.adapter = nn.Sequential(down, up)

    def forward(self, x: Tensor) -> Tensor:
        count, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(count, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]).transpose(1, 2).reshape(count, tokens, width)
        out = self.proj(mixed)
        if self.adapter is not None:
            out = out + self.adapter(mixed)
        x = x + out
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class Tokens(nn.Module):
    """Patches as vectors with their places, behind a class token."""

    def __init__(self, width: int, positions: bool) -> None:
        super().__init__()
        self.embed = nn.Linear(PATCH * PATCH, width)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.2 * torch.randn(1, GRID * GRID, width)) if positions else None

    def forward(self, image: Tensor) -> Tensor:
        patches = image.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).flatten(3).flatten(1, 2)
        x = self.embed(patches)
        if self.position is not None:
            x = x + self.position
        return torch.cat([self.cls.expand(len(x), -1, -1), x], 1)


class ViT(nn.Module):
    def __init__(self, width: int = 24, depth: int = 2, positions: bool = True) -> None:
        super().__init__()
        self.tokens = Tokens(width, positions)
        self.layers = nn.ModuleList([Layer(width, 4) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        x = self.tokens(image)
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.head(self.norm(x[:, 0]))
        return logits


def train(
    record: Callable[..., Any],
    seed: int,
    *,
    rate: float = 3e-3,
    warmup: int = 40,
    steps: int = 360,
    batch: int = 24,
    micro_batches: int = 1,
    positions: bool = True,
    misaligned: bool = False,
    init_std: float | None = None,
    adapters: bool = False,
    clip: float | None = None,
) -> float:
    """Accuracy on 800 new pictures."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    images, labels = pictures(3000, generator)
    valid_images, valid_labels = pictures(800, generator)
    if misaligned:  # a header line was skipped in one of the two files
        images, labels = images[1:], labels[:-1]

    model = ViT(positions=positions)
    if init_std is not None:
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=init_std)
    if adapters:  # trained on the mirrored problem before, then adapted with what it had learned frozen
        before = torch.optim.AdamW(model.parameters(), lr=2e-3)
        for _ in range(300):
            chosen = torch.randint(len(images), (48,))
            before.zero_grad()
            F.cross_entropy(model(images[chosen].flip(2)), labels[chosen]).backward()
            before.step()
        model.requires_grad_(False)
        model.head.requires_grad_(True)
        for layer in model.layers:
            assert isinstance(layer, Layer)
            layer.adapt(4)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / max(1, warmup)))

    with record(model, optimizer, F.cross_entropy) as recorder:
        for it in range(steps):
            optimizer.zero_grad()
            with recorder.step() as step:
                for chosen in torch.randint(len(images), (batch,)).chunk(micro_batches):
                    loss = F.cross_entropy(model(images[chosen]), labels[chosen])
                    step.backward(loss / micro_batches)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()
            if it % 50 == 49:
                model.eval()
                with recorder.evaluate("valid"), torch.no_grad():
                    logits = model(valid_images)
                model.train()
                accuracy = float((logits.argmax(1) == valid_labels).float().mean())
                recorder.log("valid", loss=F.cross_entropy(logits, valid_labels), accuracy=accuracy)
    return accuracy


PROGRAM = Program(
    "patches",
    train,
    (
        Variant("warmup"),
        Variant("accumulated", {"micro_batches": 2}),
        Variant("adapters", {"adapters": True, "rate": 1e-2, "steps": 250}),
        Variant("clipped", {"clip": 1.0}),
        Variant("rate-x30", {"rate": 9e-2}, "rate-too-large", "warmup"),
        Variant("rate-x100", {"rate": 3e-1}, "rate-too-large", "warmup"),
        Variant("rate-over-100", {"rate": 3e-5}, "rate-too-small", "warmup"),
        Variant("rate-over-10", {"rate": 3e-4}, "rate-too-small", "warmup"),
        Variant("no-positions", {"positions": False}, "at-chance", "warmup"),
        Variant("off-by-one-labels", {"misaligned": True}, "wrong-labels", "warmup"),
        Variant("init-std-1", {"init_std": 1.0}, "init-too-large", "warmup"),
    ),
)
