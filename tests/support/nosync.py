"""Forbid what would make the host wait for an accelerator, so that a test on the CPU shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_OPERATORS = frozenset(
    {
        "_local_scalar_dense",  # item(), bool(), float(), int(), and one_hot or any other operator that looks at values
        "allclose",
        "argwhere",
        "bincount",
        "equal",
        "is_nonzero",
        "lift_fresh",  # torch.tensor(data): the copy from pageable memory waits for what the device still has to do
        "masked_select",
        "nonzero",
        "nonzero_numpy",
        "unique_consecutive",
        "unique_dim",
        "_unique",
        "_unique2",
    }
)
_INDEXING = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})
_METHODS: frozenset[Callable[..., Any]] = frozenset(
    {Tensor.tolist, Tensor.numpy, Tensor.cpu, Tensor.__array__, Tensor.__repr__, Tensor.__reduce_ex__}
)
"""Host reads that reach no operator on the CPU, so that a dispatch mode does not see them."""


class HostRead(AssertionError):
    """An operation that waits for the accelerator."""


class NoSync(TorchDispatchMode):
    """While entered, operators whose result, or the shape of it, the host must read raise `HostRead`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name in _INDEXING and any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])
        unsized = name == "repeat_interleave" and (kwargs or {}).get("output_size") is None
        if name in _OPERATORS or by_mask or unsized:
            raise HostRead(f"aten::{name} waits for the device")
        return func(*args, **(kwargs or {}))


class _NoMethods(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _METHODS:
            raise HostRead(f"Tensor.{func.__name__} waits for the device")
        return func(*args, **(kwargs or {}))


@contextmanager
def no_sync() -> Iterator[None]:
    """Neither operators nor methods of tensors may read values on the host."""
    with _NoMethods(), NoSync():
        yield
