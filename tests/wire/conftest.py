"""What several tests of the wire start from."""

import numpy as np
import pytest

from wire.tensors import Packed, Tensor


@pytest.fixture(scope="session")
def resnet20_w1() -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    """A random `w1` state of a ResNet-20 on CIFAR-10 (274,042 values), and its float32 twin."""
    rng = np.random.default_rng(0)
    packed: dict[str, Tensor] = {}
    twin: dict[str, np.ndarray] = {}

    def conv(name: str, *shape: int) -> None:
        levels = rng.choice(np.array([-1, 1], np.int8), shape)
        scale, mean = rng.random((2, shape[0])).astype(np.float16)
        packed[name] = Packed(bits=1, levels=levels, scale=scale, mean=mean)
        twin[name] = rng.standard_normal(shape).astype(np.float32)

    def norm(name: str, width: int) -> None:
        for leaf in ("weight", "bias", "running_mean", "running_var"):
            plain(f"{name}.{leaf}", width)

    def plain(name: str, *shape: int) -> None:
        twin[name] = rng.standard_normal(shape).astype(np.float32)
        packed[name] = twin[name].astype(np.float16)

    conv("extractor.conv1.weight", 16, 3, 3, 3)
    norm("extractor.bn1", 16)
    before = 16
    for stage, width in ((1, 16), (2, 32), (3, 64)):
        for block in range(3):
            at = f"extractor.stage{stage}.{block}"
            conv(f"{at}.conv1.weight", width, before, 3, 3)
            norm(f"{at}.bn1", width)
            conv(f"{at}.conv2.weight", width, width, 3, 3)
            norm(f"{at}.bn2", width)
            if before != width:
                conv(f"{at}.downsample.0.weight", width, before, 1, 1)
                norm(f"{at}.downsample.1", width)
            before = width
    conv("predictor.weight", 10, 64)
    plain("predictor.bias", 10)
    return packed, twin
