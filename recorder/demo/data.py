"""The handwritten digits of scikit-learn, ready to train on."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 64
TRAINING_SHARE = 0.8

Loader = DataLoader[tuple[Tensor, ...]]


def digits(seed: int) -> tuple[Loader, Loader]:
    """Shuffled batches to train on, and one batch to validate on.

    Images have the shape (batch, 1, 8, 8), targets (batch,). The mean and standard deviation that scale the images come
    from the training share alone. The last batch of an epoch is dropped where it is smaller than the others.
    """
    values, labels = load_digits(return_X_y=True)
    images = torch.tensor(values, dtype=torch.float32).reshape(-1, 1, 8, 8)
    targets = torch.tensor(labels, dtype=torch.int64)

    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    train, valid = order.split([split := int(TRAINING_SHARE * len(order)), len(order) - split])

    images = (images - images[train].mean()) / images[train].std()
    return (
        DataLoader(
            TensorDataset(images[train], targets[train]),
            batch_size=BATCH_SIZE,
            shuffle=True,
            drop_last=True,
            generator=generator,
        ),
        DataLoader(TensorDataset(images[valid], targets[valid]), batch_size=len(valid)),
    )
