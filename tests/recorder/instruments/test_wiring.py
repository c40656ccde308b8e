from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.audits import Rig, micro
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from recorder.instruments.wiring import Wiring, leaves

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def sgd(*modules: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.1)


def audit(rig: Rig, *losses: Callable[[], Tensor]) -> dict[str, dict[str, object]]:
    """The tensors of the last wiring event after a step for each loss, by name."""
    wiring = Wiring(rig.context)
    for loss in losses:
        rig.step(wiring, lambda loss=loss: micro(loss()))
    return {tensor["name"]: tensor for tensor in rig.events("wiring")[-1]["tensors"]}


def flags(found: dict[str, dict[str, object]], name: str) -> str:
    """The sets that a tensor belongs to: r(eached), reg(istered), h(eld)."""
    letters = {"reached": "r", "registered": "reg", "held": "h"}
    return "".join(letter for key, letter in letters.items() if found[name][key])


def test_a_sound_model_is_in_all_sets() -> None:
    model = nn.Linear(3, 2)
    found = audit(Rig(model, sgd(model)), lambda: model(X).sum())
    assert found["weight"] == {
        "name": "weight", "registered": True, "reached": True, "held": True, "requires_grad": True, "parameter": True,
        "shape": [2, 3], "numel": 6,
    }  # fmt: skip
    assert list(found) == ["weight", "bias"]


def test_a_detached_trunk_is_not_reached() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    found = audit(Rig(model, sgd(model)), lambda: model[1](model[0](X).detach()).sum())
    assert [flags(found, name) for name in found] == ["regh", "regh", "rregh", "rregh"]


def test_a_forgotten_group_is_not_held() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    found = audit(Rig(model, sgd(model[1])), lambda: model(X).sum())
    assert [flags(found, name) for name in found] == ["rreg", "rreg", "rregh", "rregh"]


def test_a_frozen_tensor_says_so() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[0].requires_grad_(requires_grad=False)
    found = audit(Rig(model, sgd(model)), lambda: model(X).sum())
    assert flags(found, "0.weight") == "regh"
    assert found["0.weight"]["requires_grad"] is False


def test_layers_in_a_list_are_unregistered() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 1)
            self.layers = [nn.Linear(3, 3, bias=False)]

    model = Listed()
    found = audit(Rig(model, sgd(model)), lambda: model.head(model.layers[0](X)).sum())
    assert flags(found, "unregistered #0 (3, 3)") == "r"
    assert found["unregistered #0 (3, 3)"]["parameter"] is True
    assert found["unregistered #0 (3, 3)"]["numel"] == 9


def test_an_optimizer_of_a_model_that_was_made_again_holds_stale_tensors() -> None:
    old, model = nn.Linear(3, 2), nn.Linear(3, 2)
    found = audit(Rig(model, sgd(old)), lambda: model(X).sum())
    assert {name: flags(found, name) for name in found} == {
        "weight": "rreg", "bias": "rreg", "unregistered #0 (2, 3)": "h", "unregistered #1 (2,)": "h",
    }  # fmt: skip


def test_a_shared_parameter_appears_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    assert list(audit(Rig(model, sgd(model)), lambda: model(X).sum())) == ["0.weight"]


def test_parameters_of_the_loss_are_registered() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

    model, loss = nn.Linear(3, 1), Weighted()
    found = audit(Rig(model, sgd(model, loss), loss_fn=loss), lambda: model(X).sum() * loss.scale)
    assert flags(found, "loss_fn.scale") == "rregh"
    assert len(found) == 3


def test_a_tensor_used_on_some_steps_only_counts_as_reached() -> None:
    model = nn.ModuleList([nn.Linear(3, 1, bias=False), nn.Linear(3, 1, bias=False)])
    rig = Rig(model, sgd(model))
    wiring = Wiring(rig.context)
    for step in range(8):  # the second layer comes in long after the walks ended
        rig.step(wiring, lambda used=model[int(step == 6)]: micro(used(X).sum()))
    told = rig.events("wiring")
    assert [[tensor["reached"] for tensor in event["tensors"]] for event in told] == [[True, False], [True, True]]


def test_two_models_and_two_losses_as_in_adversarial_training() -> None:
    generator, critic = nn.Linear(3, 3), nn.Linear(3, 1)
    both = nn.ModuleDict({"generator": generator, "critic": critic})
    rig = Rig(both, sgd(generator), sgd(critic))
    losses = [lambda: critic(generator(X).detach()).sum()] * 5 + [lambda: critic(generator(X)).sum()]
    assert all(flags(audit(rig, *losses), name) == "rregh" for name in ("generator.weight", "critic.bias"))


def test_later_micro_batches_count() -> None:
    model = nn.ModuleList([nn.Linear(3, 1, bias=False), nn.Linear(3, 1, bias=False)])
    rig = Rig(model, sgd(model))
    rig.step(Wiring(rig.context), *(lambda layer=layer: micro(layer(X).sum()) for layer in model))
    assert all(tensor["reached"] for tensor in rig.events("wiring")[-1]["tensors"])


def test_thawing_and_new_groups_are_told_and_nothing_else_is() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False))
    model[0].requires_grad_(requires_grad=False)
    optimizer = sgd(model[1])
    rig = Rig(model, optimizer)
    wiring = Wiring(rig.context)

    def told() -> list[str]:
        for _ in range(4):
            optimizer.zero_grad()
            rig.step(wiring, lambda: micro(model(X).sum()))
        return [flags({t["name"]: t for t in event["tensors"]}, "0.weight") for event in rig.events("wiring")]

    assert told() == ["reg"]
    model[0].requires_grad_()
    assert told() == ["rreg"]
    optimizer.add_param_group({"params": model[0].parameters()})
    assert told() == ["rregh"]


def test_a_loss_without_a_graph_is_told_before_the_backward_pass_raises() -> None:
    model = nn.Linear(3, 1)
    rig = Rig(model, sgd(model))
    wiring = Wiring(rig.context)
    rig.step(wiring, lambda: micro(model(X).sum().detach()))
    assert not any(tensor["reached"] for tensor in rig.events("wiring")[0]["tensors"])


def test_plain_tensors_count_when_they_stay() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 1)
            self.weight = torch.ones(3, requires_grad=True)

    model = Plain()
    rig = Rig(model, sgd(model))
    found = audit(rig, *[lambda: model.head(X.clone().requires_grad_() * model.weight).sum()] * 3)
    assert flags(found, "unregistered #0 (3,)") == "r"
    assert found["unregistered #0 (3,)"]["parameter"] is False
    assert not any("(4, 3)" in name for name in found), "inputs are no weights"


def test_an_optimized_plain_tensor_is_held_and_reached() -> None:
    image = torch.zeros(4, 3, requires_grad=True)
    model = nn.Linear(3, 1)
    found = audit(Rig(model, torch.optim.SGD([image], lr=0.1)), lambda: model(image).sum())
    assert flags(found, "unregistered #0 (4, 3)") == "rh"


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_model_is_reached(reentrant: bool) -> None:
    inner, head = nn.Linear(3, 3), nn.Linear(3, 1)
    model = nn.ModuleDict({"inner": inner, "head": head})
    start = X.clone().requires_grad_()
    found = audit(Rig(model, sgd(model)), lambda: head(checkpoint(inner, start, use_reentrant=reentrant)).sum())
    assert [flags(found, name) for name in found] == ["rregh"] * 4


def test_a_compiled_model_is_reached() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    compiled = torch.compile(model, backend="aot_eager")
    found = audit(Rig(model, sgd(model)), lambda: compiled(X).sum())
    assert [flags(found, name) for name in found] == ["rregh"] * 4


def test_sparse_gradients_lazy_and_unused_parameters() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 3, sparse=True)
            self.spare = nn.LazyLinear(2)

    model = Odd()
    found = audit(Rig(model, sgd(model.table)), lambda: model.table(torch.tensor([1, 2])).sum())
    assert flags(found, "table.weight") == "rregh"
    assert (found["spare.weight"]["shape"], found["spare.weight"]["numel"]) == ([], 0)
    assert flags(found, "spare.weight") == "reg"


def test_a_gradient_left_from_before_is_no_witness() -> None:
    model = nn.ModuleList([nn.Linear(3, 1, bias=False), nn.Linear(3, 1, bias=False)])
    model[1].weight.grad = torch.ones(1, 3)
    found = audit(Rig(model, sgd(model)), lambda: model[0](X).sum())
    assert flags(found, "1.weight") == "regh"


def test_a_model_without_parameters_gives_an_empty_list() -> None:
    rig = Rig(nn.ReLU())
    wiring = Wiring(rig.context)
    start = X.clone().requires_grad_()
    rig.step(wiring, lambda: micro(start.sum()))
    assert rig.events("wiring") == []


def test_leaves_of_a_deep_graph_are_not_all_looked_for_and_it_is_freed_safely() -> None:
    near, far = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))
    x = far * 1.0
    for _ in range(100_000):
        x = x * 1.0
    found, complete = leaves(x * near)
    assert found[0] is near
    assert len(found) == 1
    assert not complete
    del x  # a walk to the end would overflow the stack here: torch frees nodes that have Python objects by recursion


def test_leaves_of_a_wide_graph_are_all_found() -> None:
    weights = [nn.Parameter(torch.ones(())) for _ in range(20_000)]
    found, complete = leaves(torch.stack(weights).sum())
    assert complete
    assert {id(leaf) for leaf in found} == {id(weight) for weight in weights}


def test_a_parameter_behind_a_deep_graph_is_reached_by_its_gradient() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self) -> Tensor:
            x = self.weight * 1.0
            for _ in range(8_000):
                x = x * 1.0
            return x

    model = Deep()
    rig = Rig(model, sgd(model))
    rig.step(Wiring(rig.context), lambda: micro(model()))
    (told,) = rig.events("wiring")
    assert told["tensors"][0]["reached"] is True


def test_a_loss_that_is_a_parameter_reaches_itself() -> None:
    weight = nn.Parameter(torch.ones(()))
    assert leaves(weight)[0][0] is weight
    assert leaves(torch.ones(())) == ([], True)
