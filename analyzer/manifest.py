"""The run file of an attempt (`run-a00.json`) and the end file of a rank (`end-a00-r000.json`), as frozen views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from recorder import schema

from .errors import RunError
from .jsonfile import REMEDY, JsonObject, read_object


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A parameter tensor of the model. `group`: position of its optimizer group, None when no optimizer holds it."""

    name: str
    module: str
    module_type: str
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool
    group: int | None

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """A module of the model, by its dotted name and class. `dropout`: the share that it drops in training, if any."""

    name: str
    type: str
    dropout: float | None = None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A parameter group. `optimizer` is the position of its optimizer, `lr` the rate at the start, None if unknown."""

    optimizer: int
    type: str
    lr: float | None
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LossInfo:
    """The class and the reduction of the loss module."""

    type: str
    reduction: str | None


@dataclass(frozen=True, slots=True)
class InstrumentInfo:
    """An instrument that recorded, with the columns it fills as `table.column`."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the recorder knew when an attempt began; `raw` is the file as it stands. Tensors are in forward order."""

    format: int
    recorder: str
    run_id: str
    attempt: int
    first_step: int
    started: str | None
    host: str | None
    pid: int | None
    rank_count: int
    git_commit: str | None
    command: str | None
    versions: Mapping[str, str]
    device: str | None
    mode: str
    preset: str | None
    schedule: Mapping[str, Any]
    parameters: int | None
    model: str | None
    tensors: tuple[TensorInfo, ...]
    modules: tuple[ModuleInfo, ...]
    groups: tuple[GroupInfo, ...]
    loss: LossInfo | None
    instruments: tuple[InstrumentInfo, ...]
    hparams: Mapping[str, Any]
    target: Mapping[str, Any]
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EndFile:
    """How one rank of an attempt ended; `status` is one of `schema.STATUSES`."""

    attempt: int
    rank: int
    status: str
    last_step: int | None
    ended: str | None
    exception: str | None


def read_manifest(path: Path) -> Manifest:
    """The run file at `path`. Raises RunError, naming the file and the key, when it is not what a recorder writes."""
    file = read_object(path)
    return Manifest(
        format=file.integer("format"),
        recorder=file.text("recorder", "unknown"),
        run_id=file.text("run_id"),
        attempt=file.integer("attempt", least=0),
        first_step=file.integer("first_step", 0),
        started=file.maybe_text("started"),
        host=file.maybe_text("host"),
        pid=file.maybe_integer("pid"),
        rank_count=file.integer("rank_count", 1, least=1),
        git_commit=file.maybe_text("git_commit"),
        command=file.maybe_text("command"),
        versions=MappingProxyType({name: str(version) for name, version in file.mapping("versions").items()}),
        device=file.maybe_text("device"),
        mode=file.text("mode", "train"),
        preset=file.maybe_text("preset"),
        schedule=MappingProxyType(file.mapping("schedule")),
        parameters=file.maybe_integer("parameters", least=0),
        model=file.maybe_text("model"),
        tensors=tuple(_tensor(item) for item in file.objects("tensors")),
        modules=tuple(
            ModuleInfo(item.text("name"), item.text("type", ""), item.maybe_number("dropout"))
            for item in file.objects("modules")
        ),
        groups=tuple(_group(item) for item in file.objects("groups")),
        loss=_loss(file.maybe_object("loss")),
        instruments=tuple(_instrument(item) for item in file.objects("instruments")),
        hparams=MappingProxyType(file.mapping("hparams")),
        target=MappingProxyType(file.mapping("target")),
        raw=MappingProxyType(file.data),
    )


def read_end(path: Path) -> EndFile:
    """The end file at `path`. Raises RunError, naming the file and the key, when it is not what a recorder writes."""
    file = read_object(path)
    status = file.text("status")
    if status not in schema.STATUSES:
        expected = " or ".join(f'"{name}"' for name in schema.STATUSES)
        raise RunError(f'{path}: "status" should be {expected}: {REMEDY}.')
    return EndFile(
        attempt=file.integer("attempt", least=0),
        rank=file.integer("rank", least=0),
        status=status,
        last_step=file.maybe_integer("last_step"),
        ended=file.maybe_text("ended"),
        exception=file.maybe_text("exception"),
    )


def _tensor(item: JsonObject) -> TensorInfo:
    return TensorInfo(
        name=item.text("name"),
        module=item.text("module", ""),
        module_type=item.text("module_type", ""),
        shape=item.shape("shape"),
        dtype=item.text("dtype", ""),
        requires_grad=item.flag("requires_grad", default=True),
        group=item.maybe_integer("group", least=0),
    )


def _group(item: JsonObject) -> GroupInfo:
    return GroupInfo(
        optimizer=item.integer("optimizer", 0, least=0),
        type=item.text("type", ""),
        lr=item.maybe_number("lr"),
        options=MappingProxyType(item.mapping("options")),
    )


def _loss(item: JsonObject | None) -> LossInfo | None:
    return None if item is None else LossInfo(item.text("type", ""), item.maybe_text("reduction"))


def _instrument(item: JsonObject) -> InstrumentInfo:
    columns = tuple(f"{column.text('table')}.{column.text('column')}" for column in item.objects("columns"))
    return InstrumentInfo(item.text("name"), columns)
