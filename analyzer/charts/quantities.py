"""The charts of single quantities: what each shows, and how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .over_steps import Level, Style
from .quantity import Quantity

_LOG = Style(log=True)
_NORM = Style(axis="norm", log=True)

QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        quantity.name: quantity
        for quantity in (
            Quantity(
                name="loss-noise",
                title="Noise of the batch's loss",
                section="learning",
                lines={"standard error": "loss_se"},
                reading=(
                    "Standard error of the mean over the batch: how far the loss of a step would lie from that of all "
                    "data by the choice of its samples alone. Changes of the loss smaller than this say nothing."
                ),
                style=_LOG,
            ),
            Quantity(
                name="loss-beside",
                title="Terms beside the loss",
                section="learning",
                lines={"terms": "loss_beside"},
                reading=(
                    "What is differentiated less the losses that were seen being called: penalties, divergences, an "
                    "entropy. Terms that fall without end have the wrong sign."
                ),
                dull=(0.0, "What is differentiated is the loss that was called, and nothing else."),
            ),
            Quantity(
                name="update-size",
                title="Update size",
                section="step-size",
                lines={"update": "update_norm"},
                reading="Norm of the update that the optimizer made. It follows the learning rate and the gradients.",
                style=_NORM,
            ),
            Quantity(
                name="gradient-norm",
                title="Gradient norm",
                section="step-size",
                lines={"gradient": "grad_norm"},
                reading="Norm of the gradient of all parameters. Growth by orders of magnitude precedes a blow-up.",
                style=_NORM,
            ),
            Quantity(
                name="gradient-tests",
                title="Noise of the gradient: three tests",
                section="gradients",
                lines={"norm": "norm_test", "inner product": "inner_test", "orthogonality": "ortho_test"},
                reading=(
                    "Standard error of the batch's gradient over its norm: in all directions (norm test), along the "
                    "gradient (inner product) and across it (orthogonality). Above 1 a step follows noise more than "
                    "signal, which a larger batch or a smaller rate makes up for."
                ),
                style=Style(log=True, middle="median", level=Level(1.0, "as much noise as gradient")),
            ),
            Quantity(
                name="noise-scale",
                title="Batch sizes that the noise asks for",
                section="gradients",
                lines={"noise scale": "noise_scale", "CABS": "cabs"},
                beside={"batch size used": "batch_size"},
                reading=(
                    "Noise scale: the batch at which noise and gradient are equal; a batch far above it is wasted, far "
                    "below it noisy. CABS: the batch at which noise, rate and loss are in balance for plain SGD."
                ),
                style=Style(axis="samples", log=True, middle="median"),
            ),
            Quantity(
                name="mean-gsnr",
                title="Signal-to-noise ratio of the gradient",
                section="gradients",
                lines={"mean GSNR": "mean_gsnr"},
                reading=(
                    "Squared mean over variance of each entry of the gradient over the samples, averaged over the "
                    "entries. High while samples agree on where to go; pure noise gives one over the batch size."
                ),
                style=_LOG,
            ),
            Quantity(
                name="early-stopping",
                title="Evidence for stopping",
                section="gradients",
                lines={"evidence": "early_stopping"},
                reading=(
                    "Compares the gradient with what its noise alone would give. Far below 0 there is signal left; "
                    "values that stay above 0 say that the batches only pull at random."
                ),
                style=Style(level=Level(0.0, "nothing but noise is left")),
            ),
            Quantity(
                name="stale-gradients",
                title="Gradient left over from the step before",
                section="gradients",
                lines={"left over": "stale_grad_norm"},
                reading=(
                    "Norm of what the parameters' gradients held before the first backward pass of a step. Anything "
                    "but zero is added to the step's own gradient: zero_grad() is missing, unless that is meant."
                ),
                style=_NORM,
                dull=(0.0, "Nothing was left over before any backward pass."),
            ),
            Quantity(
                name="hessian-trace",
                title="Trace of the curvature",
                section="curvature",
                lines={"Hessian": "hess_trace", "Gauss-Newton": "ggn_trace"},
                reading=(
                    "Sum of the curvature over all directions. The Gauss-Newton trace is never negative; the Hessian's "
                    "lies below it where the loss curves downwards along some directions. High values mean a sharp "
                    "minimum or a bad scaling."
                ),
                style=_LOG,
            ),
            Quantity(
                name="takeuchi",
                title="Noise over curvature (TIC)",
                section="curvature",
                lines={"by entries": "tic_diagonal", "by traces": "tic_trace"},
                reading=(
                    "Takeuchi's information criterion: the scatter of the individual gradients over the curvature, "
                    "which foretells the gap between training and test. Growth late in the run goes with overfitting."
                ),
                style=_LOG,
            ),
            Quantity(
                name="batch-size",
                title="Batch size",
                section="hyperparameters",
                lines={"samples": "batch_size"},
                reading=(
                    "Samples in each step, all micro-batches together. "
                    "A smaller last batch of each epoch shows as regular dips."
                ),
                style=Style(axis="samples", stepped=True),
            ),
            Quantity(
                name="micro-batches",
                title="Backward passes in a step",
                section="hyperparameters",
                lines={"micro-batches": "micro_batches"},
                reading="Micro-batches whose gradients were added up for each step of the optimizer.",
                style=Style(stepped=True),
                dull=(1.0, "Each step was a single backward pass."),
            ),
            Quantity(
                name="evaluations",
                title="Evaluations within the optimizer's step",
                section="hyperparameters",
                lines={"evaluations": "evaluations"},
                reading="Forward and backward passes that a closure made, as LBFGS asks for.",
                style=Style(stepped=True),
                dull=(0.0, "The optimizer evaluated no closure."),
            ),
            Quantity(
                name="loss-scale",
                title="Loss scale",
                section="hyperparameters",
                lines={"factor": "loss_scale"},
                reading=(
                    "Factor by which the gradient scaler multiplied the loss. It halves after an overflow and grows "
                    "again later; a fall without end means that gradients overflow whatever it does."
                ),
                style=Style(log=True, stepped=True),
            ),
            Quantity(
                name="model-input",
                title="Input of the model",
                section="data",
                lines={"largest magnitude": "input_absmax", "standard deviation": "input_std", "mean": "input_mean"},
                reading="Scaled inputs have a mean near 0 and a standard deviation near 1; jumps are odd batches.",
            ),
            Quantity(
                name="predictions",
                title="Predictions and targets",
                section="data",
                lines={
                    "largest prediction": "prediction_max",
                    "smallest prediction": "prediction_min",
                    "largest target": "target_max",
                    "smallest target": "target_min",
                },
                reading=(
                    "Range of what the loss compares. Logits that keep growing are over-confident; of a regression, "
                    "the predictions should come to span the range of the targets."
                ),
            ),
            Quantity(
                name="training-mode",
                title="Modules in training mode",
                section="data",
                lines={"share": "training_share"},
                reading=(
                    "Share of the modules in training mode. An eval() that was not undone after a validation shows as "
                    "a step down."
                ),
                style=Style(stepped=True),
                dull=(1.0, "All modules were in training mode at every probed step."),
            ),
            Quantity(
                name="throughput",
                title="Throughput",
                section="performance",
                lines={"samples": "throughput"},
                reading=(
                    "Samples a second by the clock on the wall, from the start of each step to the start of the next: "
                    "loading, validation and recording included."
                ),
                style=Style(axis="samples/s", log=True, middle="median"),
            ),
        )
    }
)
"""By name."""
