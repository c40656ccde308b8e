"""Readers and articles, two towers with dot products: contrast within the batch, Adam, steps without epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, relu
from zoo.program import Program, Record, Variant


def pairs(count: int, noise: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features of readers and of the articles that they read."""
    taste = torch.randn(count, 6, generator=rng)
    fixed = torch.Generator().manual_seed(77)
    to_reader, to_article = torch.randn(6, 20, generator=fixed), torch.randn(6, 16, generator=fixed)
    reader = torch.tanh(taste @ to_reader) + noise * torch.randn(count, 20, generator=rng)
    article = (taste @ to_article).abs().sqrt() * (taste @ to_article).sign()
    return reader, article + noise * torch.randn(count, 16, generator=rng)


def tower(features: int, hidden: int, act: type[nn.Module]) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, 12))


class TwoTowers(nn.Module):
    """Scores (readers, articles) of all with all."""

    def __init__(self, hidden: int, act: type[nn.Module], temperature: float, learns_temperature: bool) -> None:
        super().__init__()
        self.reader, self.article = tower(20, hidden, act), tower(16, hidden, act)
        self.log_scale = nn.Parameter(-torch.tensor(temperature).log(), requires_grad=learns_temperature)

    def forward(self, reader: Tensor, article: Tensor, by: str = "dot") -> Tensor:
        r, a = normalize(self.reader(reader), dim=1), normalize(self.article(article), dim=1)
        closeness = r @ a.T if by == "dot" else torch.cdist(r, a)
        return closeness * self.log_scale.exp()


def info_nce(scores: Tensor) -> Tensor:
    own = torch.arange(len(scores))
    return (cross_entropy(scores, own) + cross_entropy(scores.T, own)) / 2


def triplet(scores: Tensor, margin: float = 3.0) -> Tensor:
    """Hinge on the nearest wrong article of each reader."""
    wrong = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -torch.inf).amax(dim=1)
    return relu(margin + wrong - scores.diagonal()).mean()


def recall(scores: Tensor, at: int = 5) -> Tensor:
    return (scores.topk(at, dim=1).indices == torch.arange(len(scores))[:, None]).any(dim=1).float().mean()


def train(
    record: Record,
    seed: int,
    lr: float = 2e-3,
    optim: str = "adam",
    steps: int = 300,
    batch: int = 64,
    count: int = 1500,
    hidden: int = 48,
    act: type[nn.Module] = nn.ReLU,
    temperature: float = 0.1,
    learns_temperature: bool = False,
    loss: str = "info-nce",
    by: str = "dot",
    misaligned: float = 0.0,
    joined: bool = True,
    gain: float = 1.0,
    shift: float = 0.0,
    clears: bool = True,
    micro: int = 1,
) -> float:
    rng = torch.Generator().manual_seed(5)
    test_reader, test_article = pairs(400, 0.4, rng)
    reader, article = pairs(count, 0.4, rng)
    torch.manual_seed(seed)
    if misaligned:  # this share of the table slipped by one line
        last = int(misaligned * count)
        article = torch.cat([article[:last].roll(1, dims=0), article[last:]])
    if not joined:  # no key of a reader is found, and what is missing is filled with zeros
        reader, test_reader = torch.zeros_like(reader), torch.zeros_like(test_reader)

    model = TwoTowers(hidden, act, temperature, learns_temperature)
    with torch.no_grad():
        for each in [*model.reader, *model.article]:
            if isinstance(each, nn.Linear):
                each.weight.mul_(gain)
                if each.out_features == hidden:
                    each.bias.sub_(shift)
    weights = [p for p in model.parameters() if p.requires_grad]
    warm_up = 1
    if optim == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(weights, lr=lr, momentum=0.9)
        warm_up = steps // 5
    else:
        optimizer = torch.optim.Adam(weights, lr=lr)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0 if optim == "adam" else 0.02, 1.0, warm_up)
    objective = triplet if loss == "triplet" else info_nce

    with record(model, optimizer, hparams={"seed": seed, "batch": batch, "loss": loss}) as recorder:
        for at in range(steps):
            with recorder.step() as step:
                for _ in range(micro):
                    chosen = torch.randint(count, (batch // micro,))
                    scores = model(reader[chosen], article[chosen], by)
                    step.backward(objective(scores) / micro)
            optimizer.step()
            scheduler.step()
            if clears:
                optimizer.zero_grad()
            if at % 50 == 49:
                model.eval()
                with torch.no_grad(), recorder.evaluate("valid"):
                    scores = model(test_reader, test_article)
                model.train()
                recorder.log("valid", loss=objective(scores[:batch, :batch]), recall=recall(scores))
    with torch.no_grad():
        return float(recall(model(test_reader, test_article)))


PROGRAM = Program(
    "two-tower",
    train,
    (
        Variant("adam"),
        Variant("triplet", {"loss": "triplet"}),
        Variant("learnt-temperature", {"learns_temperature": True, "temperature": 0.3}),
        Variant("sgd-warm-up", {"optim": "sgd", "lr": 0.2}),
        Variant("micro-batches", {"micro": 2, "batch": 128}),
        Variant("tanh", {"act": nn.Tanh}),
        Variant("distance-for-closeness", {"by": "distance"}, "flipped-sign", "adam"),
        Variant("slipped-table", {"misaligned": 1.0}, "wrong-labels", "adam"),
        Variant("partly-slipped-table", {"misaligned": 0.6}, "wrong-labels", "adam"),
        Variant("tanh-gain-30", {"act": nn.Tanh, "gain": 30.0}, "saturated-units", "tanh", also=("init-too-large",)),
        Variant("never-clears", {"clears": False}, "no-zero-grad", "adam"),
        Variant("few-pairs", {"count": 80, "steps": 400, "hidden": 96}, "overfitting", "adam"),
        Variant("failed-join", {"joined": False}, "at-chance", "adam", also=("unnormalised-inputs",)),
        Variant("biases-minus-2", {"shift": 2.0}, "dead-units", "adam"),
    ),
)
