"""The programs of the zoo, in the parts that they were written for.

`tuning`: thresholds are tuned on them. `heldout` and `retest`: kept for a first and a second test, judged blind once,
and looked at after that. The next test needs programs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from zoo.heldout import (
    citations,
    distil,
    echo,
    gridworld,
    house_prices,
    moons,
    patches,
    rare_events,
    ratings,
    shapes,
    siamese,
    tags,
    vibration,
    wgan,
    wine,
)
from zoo.program import Program
from zoo.retest import (
    building_loads,
    churn,
    digits_resnet,
    grating_mixer,
    intents,
    load_forecast,
    pole_dqn,
    pulse_denoiser,
    pulse_vae,
    two_tower,
)
from zoo.tuning import (
    bandit_policy,
    blobs_sgd,
    cancer_logistic,
    deep_mlp,
    diabetes_mlp,
    digits_cnn,
    digits_finetune,
    digits_mlp,
    digits_vae,
    fraud_mlp,
    one_batch,
    parity_mlp,
    ratings_embeddings,
    ring_gan,
    sine_rnn,
    text_transformer,
    wine_amp,
)

TUNING: tuple[Program, ...] = (
    bandit_policy.PROGRAM,
    blobs_sgd.PROGRAM,
    cancer_logistic.PROGRAM,
    deep_mlp.PROGRAM,
    diabetes_mlp.PROGRAM,
    digits_cnn.PROGRAM,
    digits_finetune.PROGRAM,
    digits_mlp.PROGRAM,
    digits_vae.PROGRAM,
    fraud_mlp.PROGRAM,
    one_batch.PROGRAM,
    parity_mlp.PROGRAM,
    ratings_embeddings.PROGRAM,
    ring_gan.PROGRAM,
    sine_rnn.PROGRAM,
    text_transformer.PROGRAM,
    wine_amp.PROGRAM,
)
HELDOUT: tuple[Program, ...] = (
    citations.PROGRAM,
    distil.PROGRAM,
    echo.PROGRAM,
    gridworld.PROGRAM,
    house_prices.PROGRAM,
    moons.PROGRAM,
    patches.PROGRAM,
    rare_events.PROGRAM,
    ratings.PROGRAM,
    shapes.PROGRAM,
    siamese.PROGRAM,
    tags.PROGRAM,
    vibration.PROGRAM,
    wgan.PROGRAM,
    wine.PROGRAM,
)

RETEST: tuple[Program, ...] = (
    building_loads.PROGRAM,
    churn.PROGRAM,
    digits_resnet.PROGRAM,
    grating_mixer.PROGRAM,
    intents.PROGRAM,
    load_forecast.PROGRAM,
    pole_dqn.PROGRAM,
    pulse_denoiser.PROGRAM,
    pulse_vae.PROGRAM,
    two_tower.PROGRAM,
)

PARTS: Mapping[str, tuple[Program, ...]] = {"tuning": TUNING, "heldout": HELDOUT, "retest": RETEST}
