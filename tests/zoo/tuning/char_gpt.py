"""Descriptions of data sets, character by character: a small GPT with attention written out, trained in micro-batches.

AdamW with weight decay on matrices only, linear warm-up and then a cosine, gradients clipped. Validation in bits.
"""

from __future__ import annotations

import io
import math
import os
import re
import signal
from typing import Any

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional
from zoo.program import Program, Record, Variant

BLOCK = 24
WIDTH = 32
HEADS = 4


def corpus() -> tuple[Tensor, int]:
    loaders = (datasets.load_breast_cancer, datasets.load_diabetes, datasets.load_iris, datasets.load_wine)
    letters = re.sub(r"[^a-z .,]+", " ", " ".join(load().DESCR for load in loaders).lower())
    letters = re.sub(r" +", " ", letters)
    alphabet = sorted(set(letters))
    return torch.tensor([alphabet.index(letter) for letter in letters]), len(alphabet)


class Attention(nn.Module):
    def __init__(self, first_hidden: int, dropout: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("hidden", torch.triu(torch.ones(BLOCK, BLOCK, dtype=torch.bool), diagonal=first_hidden))
        self.hidden: Tensor

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        weights = scores.masked_fill(self.hidden[:t, :t], -1e9).softmax(dim=-1)
        mixed = (self.drop(weights) @ v).transpose(1, 2).reshape(n, t, WIDTH)
        out: Tensor = self.proj(mixed)
        return out


class GPT(nn.Module):
    def __init__(self, letters: int, layers: int, first_hidden: int, dropout: float, tied: bool) -> None:
        super().__init__()
        self.wte = nn.Embedding(letters, WIDTH)
        self.wpe = nn.Embedding(BLOCK, WIDTH)
        self.attentions = nn.ModuleList(Attention(first_hidden, dropout) for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.GELU(), nn.Linear(3 * WIDTH, WIDTH), nn.Dropout(dropout))
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * layers + 1))
        self.lm_head = nn.Linear(WIDTH, letters, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for i, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            x = x + attention(self.norms[2 * i](x))
            x = x + mlp(self.norms[2 * i + 1](x))
        out: Tensor = self.lm_head(self.norms[-1](x))
        return out


def initialise(model: GPT, how: str, std: float) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            if how == "constant" and isinstance(module, nn.Linear):
                nn.init.constant_(module.weight, std)  # normal_ was meant
            else:
                nn.init.normal_(module.weight, std=std)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
    if how == "zero-residual":
        for attention, mlp in zip(model.attentions, model.mlps, strict=True):
            nn.init.zeros_(attention.proj.weight)  # type: ignore[arg-type, union-attr]
            nn.init.zeros_(mlp[2].weight)  # type: ignore[index]


def groups(model: GPT, decay: float, everywhere: bool) -> list[dict[str, Any]]:
    decayed = [p for p in model.parameters() if p.dim() >= 2 or everywhere]
    exempt = [p for p in model.parameters() if p.dim() < 2 and not everywhere]
    made = [{"params": decayed, "weight_decay": decay}, {"params": exempt, "weight_decay": 0.0}]
    return [group for group in made if group["params"]]


def train(
    record: Record,
    seed: int,
    lr: float = 4e-3,
    iters: int = 240,
    warm: int = 30,
    min_share: float = 0.05,
    ticks: int = 1,
    constant: bool = False,
    decay: float = 0.1,
    decay_everywhere: bool = False,
    clip: float = 1.0,
    layers: int = 2,
    first_hidden: int = 1,
    over: str = "letters",
    dropout: float = 0.0,
    smoothing: float = 0.0,
    tied: bool = True,
    init: str = "normal",
    std: float = 0.05,
    accumulate: int = 1,
    clears_grad: bool = True,
    misaligned: bool = False,
    stops_at: int | None = None,
    killed_at: int | None = None,
) -> float:
    torch.manual_seed(seed)
    tokens, letters = corpus()
    cut = int(0.85 * len(tokens))
    train_tokens, valid_tokens = tokens[:cut], tokens[cut:]

    model = GPT(letters, layers, first_hidden, dropout, tied)
    initialise(model, init, std)
    optimizer = torch.optim.AdamW(groups(model, decay, decay_everywhere), lr=lr, betas=(0.9, 0.95))

    def share(tick: int) -> float:
        if tick < warm:
            return (tick + 1) / warm
        if constant:
            return 1.0
        done = min(1.0, (tick - warm) / (iters - warm))
        return min_share + (1 - min_share) * 0.5 * (1 + math.cos(math.pi * done))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=smoothing)

    def draw(source: Tensor, size: int) -> tuple[Tensor, Tensor]:
        start = torch.randint(len(source) - BLOCK - 1, (size, 1))
        window = source[start + torch.arange(BLOCK + 1)]
        return window[:, :-1], window[:, 1:]

    def bits() -> float:
        model.eval()
        with torch.no_grad():
            starts = torch.arange(0, len(valid_tokens) - BLOCK - 1, BLOCK)[:, None]
            window = valid_tokens[starts + torch.arange(BLOCK + 1)]
            loss = functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        model.train()
        return float(loss) / math.log(2)

    def run(first: int, last: int, **options: Any) -> None:
        with record(model, optimizer, loss_fn, **options) as recorder:
            for it in range(first, last):
                if it == killed_at:  # another process took the memory
                    os.kill(os.getpid(), signal.SIGKILL)
                with recorder.step() as step:
                    for _ in range(accumulate):
                        x, y = draw(train_tokens, 9 // accumulate)
                        if misaligned:  # a second worker shuffles the targets
                            y = y[torch.randperm(len(y))]
                        logits = model(x)
                        if over == "time":  # the last dimension was meant
                            loss = functional.nll_loss(logits.log_softmax(dim=1).flatten(0, 1), y.flatten())
                        else:
                            loss = loss_fn(logits.view(-1, letters), y.reshape(-1))
                        step.backward(loss / accumulate)
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                if clears_grad:
                    optimizer.zero_grad(set_to_none=True)
                for _ in range(ticks):
                    scheduler.step()
                if (it + 1) % 60 == 0:
                    with recorder.evaluate("valid"):
                        recorder.log("valid", bits_per_character=bits())

    if stops_at is None:
        run(0, iters)
    else:  # the queue's time limit, then a second job from the checkpoint
        run(0, stops_at)
        file = io.BytesIO()
        torch.save((model.state_dict(), optimizer.state_dict(), scheduler.state_dict()), file)
        file.seek(0)
        states = torch.load(file)
        model.load_state_dict(states[0])
        optimizer.load_state_dict(states[1])
        scheduler.load_state_dict(states[2])
        run(stops_at, iters, resume=True)
    return -bits()


PROGRAM = Program(
    "char-gpt",
    train,
    (
        Variant("gpt"),
        Variant("untied-constant-rate", {"tied": False, "constant": True, "lr": 2e-3}),
        Variant("dropout-and-smoothing", {"dropout": 0.1, "smoothing": 0.1}),
        Variant("zero-residual", {"init": "zero-residual"}),
        Variant("clips-every-step", {"clip": 0.05}),
        Variant("micro-batches-resumed", {"accumulate": 3, "stops_at": 170}),
        Variant("rate-x30", {"lr": 0.12}, "rate-too-large", "gpt"),
        Variant("mask-off-by-one", {"first_hidden": 2}, "leaked-answer", "gpt"),
        Variant(
            "ticks-by-micro-batch",
            {"accumulate": 3, "ticks": 6, "min_share": 0.0},
            "schedule-rhythm",
            "gpt",
            also=("rate-decayed",),
        ),
        Variant("normalises-over-time", {"over": "time"}, "wrong-dimension", "gpt"),
        Variant("constant-init", {"init": "constant"}, "init-zero-or-symmetric", "gpt"),
        Variant("decay-x100-everywhere", {"decay": 10.0, "decay_everywhere": True}, "too-much-regularisation", "gpt"),
        Variant("targets-of-other-windows", {"misaligned": True}, "wrong-labels", "gpt"),
        Variant("out-of-memory", {"killed_at": 140}, "killed", "gpt"),
    ),
)
