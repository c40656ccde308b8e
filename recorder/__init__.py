"""Record what a PyTorch training does, step by step, into Parquet shards.

    from recorder import Recorder

Importing this package imports neither torch nor pyarrow; `Recorder` brings them when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import Recorder
    from .step import Step

__all__ = ["Recorder", "Step", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import recorder, step
    except ModuleNotFoundError as error:
        if error.name in ("torch", "pyarrow", "backpack"):
            raise ModuleNotFoundError(f"{error}: pip install 'glideslope[record]'", name=error.name) from error
        raise
    return {"Recorder": recorder.Recorder, "Step": step.Step}[name]
