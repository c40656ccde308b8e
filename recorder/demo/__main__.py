"""`python -m recorder.demo`: list the trainings, or record one."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from . import DESCRIPTIONS

_PACKAGES = {"torch": "torch", "pyarrow": "pyarrow", "sklearn": "scikit-learn"}


def main() -> int:
    """Read the arguments and do as they say. Returns 0, or 2 with a sentence on stderr where that is impossible."""
    parser = _parser()
    options = parser.parse_args()
    if options.list:
        for name, description in DESCRIPTIONS.items():
            print(f"{name}\t{description}")
        return 0
    if options.name is None or options.directory is None:
        parser.error("give the name of a training and a directory, or --list")
    if options.name not in DESCRIPTIONS:
        parser.error(f'there is no training "{options.name}"{_hint(options.name)}; --list shows them all')
    if missing := [package for module, package in _PACKAGES.items() if find_spec(module) is None]:
        parser.error(f"the demo needs {' and '.join(missing)}: pip install 'glideslope[demo]'")
    return _record(options.name, options.directory / options.name, options.seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m recorder.demo", description="Record a training on handwritten digits.")
    parser.add_argument("name", nargs="?", help="the training")
    parser.add_argument("directory", nargs="?", type=Path, help="where to put it: the run is DIRECTORY/NAME")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the order of the data (default 0)")
    parser.add_argument("--list", action="store_true", help="name the trainings")
    return parser


def _hint(name: str) -> str:
    close = get_close_matches(name, DESCRIPTIONS, n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _record(name: str, run_dir: Path, seed: int) -> int:
    import torch

    from .trainings import record

    torch.set_num_threads(1)  # the networks are so small that threads only wait for each other
    try:
        accuracy = record(name, run_dir, seed)
    except OSError as error:
        print(f"python -m recorder.demo: {error}", file=sys.stderr)
        return 2
    print(f"{run_dir}: validation accuracy {accuracy:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
