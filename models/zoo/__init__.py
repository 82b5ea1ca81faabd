"""The names of the zoo, and the function that builds each. Imports no torch: the registry loads them on demand."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["TEXT_BUCKETS", "ZOO"]

#: Token ids of the `text` prototype: 0 is padding, 1 .. TEXT_BUCKETS-1 are hash buckets.
TEXT_BUCKETS = 8192

ZOO: Mapping[str, str] = MappingProxyType(
    {
        "mlp": "models.zoo.mlp:mlp",
        "fedrad_mlp": "models.zoo.mlp:fedrad_mlp",
        "cnn": "models.zoo.cnn:cnn",
        "mcmahan_cnn": "models.zoo.mcmahan:mcmahan_cnn",
        "resnet8": "models.zoo.resnet:resnet8",
        "resnet8-gn": "models.zoo.resnet:resnet8_gn",
        "resnet20": "models.zoo.resnet:resnet20",
        "resnet20-gn": "models.zoo.resnet:resnet20_gn",
        "resnet32": "models.zoo.resnet:resnet32",
        "resnet32-gn": "models.zoo.resnet:resnet32_gn",
        "vgg9": "models.zoo.vgg:vgg9",
        "shufflenetv2": "models.zoo.shufflenetv2:shufflenetv2",
        "mobilenetv2": "models.zoo.mobilenetv2:mobilenetv2",
        "text": "models.zoo.text:text",
        "distilbert": "models.text.distilbert:distilbert",
    }
)
