"""What local SGD may add to the gradient, for tests that compare two ways to take the same steps."""

import pytest

every_sgd_term = pytest.mark.parametrize(
    "extra",
    [
        {},
        {"momentum": 0.9},
        {"weight_decay": 0.05},
        {"prox": 0.3},
        {"momentum": 0.9, "weight_decay": 0.05, "prox": 0.3},
        {"clip": 0.5},
        {"momentum": 0.9, "weight_decay": 0.05, "prox": 0.3, "clip": 0.3},
    ],
    ids=lambda extra: "+".join(extra) or "plain",
)
