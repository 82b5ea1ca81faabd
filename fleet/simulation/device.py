"""One simulated device: what it has, and how it answers a round, honestly or not.

A device is a few numbers until it is asked: its samples are taken from the dataset that all share, and its key is
derived from the seed, when they are needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from aggregator.recipes.lr_decay import round_lr
from core.errors import ConfigError, DivergedError, NonFiniteError, TensorError
from edge_agent.child.update_kinds import share, with_own
from edge_agent.objectives.feddistill import LabelLogits
from edge_agent.objectives.personal import Personal, train_personal
from edge_agent.objectives.select import counts_logits, make_objective
from edge_agent.state.store import EXTRACTOR, KEEPING, LABEL_LOGITS, PERSONAL
from edge_agent.training.label_privacy import told_counts, told_examples
from edge_agent.training.local_round import local_update, packed_update
from edge_agent.training.params import LocalTraining
from fleet.attacks.builtin import Attack
from fleet.data import Dataset
from fleet.partition import partition
from fleet.simulation.config import SimulationConfig
from fleet.simulation.hooks import NO_HOOKS, Hooks
from fleet.simulation.round_message import Artifact, News
from fleet.simulation.seeds import numpy_rng, torch_rng
from models.split import Prototype
from quant.pack import pack_state, unpack
from wire.headers import encode_update
from wire.keys import Ed25519PrivateKey
from wire.messages import UpdateHeader
from wire.tensors import Tensor, decode, encode

__all__ = ["FLEET", "STAYS", "Answer", "Kept", "Result", "SimulatedDevice", "make_devices"]

FLEET = "simulated"
STAYS = "stays"  # of what a device has kept: the tensors that a hook lets stay
Kept = Mapping[str, bytes]  # what stays on a device from round to round, as the agent's files hold it
#: The tensors to send, the loss, and the logits by label, where the job asks for them.
Result = tuple[Mapping[str, Tensor], float, LabelLogits | None]
Train = Callable[[Prototype, News, Kept], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a device gives back for a round."""

    message: bytes | None  # the encoded update, not sealed: see `SimulatedDevice.answer`; None: there is none
    reason: str = ""  # why there is no message
    kept: Kept = field(default_factory=dict)
    train_s: float = 0.0
    encode_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SimulatedDevice:
    """One device: its prototype, its own samples, its key."""

    number: int  # from 0
    id: str
    prototype: str
    dataset: Dataset = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)  # of the training set
    config: SimulationConfig = field(repr=False)
    attack: Attack | None = None
    hooks: Hooks = field(default=NO_HOOKS, repr=False)
    kept: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def x(self) -> torch.Tensor:
        """Its samples, made anew at every call."""
        return torch.from_numpy(self.dataset.train_inputs(self.rows))

    @property
    def y(self) -> torch.Tensor:
        """The labels that it trains with."""
        y = torch.from_numpy(self.dataset.y_train[self.rows])
        return y if self.attack is None else self.attack.labels(y, self.dataset.classes)

    @cached_property
    def key(self) -> Ed25519PrivateKey:
        """What its agent signs with over MQTT; label counts are noised by it in both."""
        return Ed25519PrivateKey.from_private_bytes(numpy_rng(self.config.seed, "key", self.number).bytes(32))

    @cached_property
    def label_counts(self) -> tuple[int, ...]:
        """As they leave the device."""
        config, counts = self.config, np.bincount(self.y.numpy(), minlength=self.dataset.classes)
        secret = b"" if config.count_epsilon is None else self.key.private_bytes_raw()
        return told_counts(counts.tolist(), secret=secret, epsilon=config.count_epsilon, width=config.count_bins)

    @property
    def true_counts(self) -> tuple[int, ...]:
        """Of its samples as they are, whatever it trains with or tells."""
        counts = np.bincount(self.dataset.y_train[self.rows], minlength=self.dataset.classes)
        return tuple(int(n) for n in counts)

    @property
    def claimed_counts(self) -> tuple[int, ...]:
        """The label counts of its updates: its own, unless it lies about them."""
        return self.label_counts if self.attack is None else self.attack.claims(self.label_counts)

    def start(self, update: str, published: Artifact, kept: Kept) -> Mapping[str, Tensor]:
        """The published model, under the device's own tensors if it keeps some."""
        own = decode(kept[STAYS]) if self.hooks.stays is not None and STAYS in kept else {}
        if update not in KEEPING or EXTRACTOR not in kept:
            return {**published.tensors, **own} if own else published.tensors
        return {**decode(with_own(update, published.data, decode(kept[EXTRACTOR]))), **own}

    def answer(self, model: Prototype, news: News, kept: Kept, train: Train | None = None) -> Answer:
        """Train, and encode the update; `kept` is what the round before has left on the device.

        Envelope and checksum protect messages on their way. These have none: they go to the process that asked for
        them.
        """
        begun = time.perf_counter()
        try:
            tensors, loss, seen = (train or self._trained)(model, news, kept)
            done = time.perf_counter()
            extra, counted = {}, {}
            if seen is not None:
                extra = pack_state({LABEL_LOGITS: seen.means()}, floats=self.floats(model))
                counted = {LABEL_LOGITS: encode(pack_state(seen.state()))}
            made = share(news.update, model, tensors, extra, checksum=False)
        except (DivergedError, TensorError) as error:
            return Answer(message=None, reason=_reason(error), train_s=time.perf_counter() - begun)
        message = encode_update(self._header(news, loss), made.body)
        encoded = time.perf_counter()
        personal = self._personal(model, news, kept, tensors)
        beside = time.perf_counter() - encoded
        return Answer(
            message=message,
            kept={**made.keep, **counted, **personal, **self._staying(tensors)},
            train_s=done - begun + beside,
            encode_s=encoded - done,
        )

    def _personal(self, model: Prototype, news: News, kept: Kept, update: Mapping[str, Tensor]) -> dict[str, bytes]:
        """Its personal model, where the job asks for one; `model` holds the update, or `update` is all of it."""
        asked = Personal.from_extra(news.extra)
        if asked is None:
            return {}
        latent = model.spec.precision.quantized
        _, state = train_personal(
            model,
            decode(kept[PERSONAL]) if PERSONAL in kept else None,
            news.published[self.prototype].tensors,
            {name: w.clone() for name, w in model.state_dict().items()} if latent else unpack(update),
            self.x,
            self.y,
            self.how(news),
            asked=asked,
            floats=self.floats(model),
            generator=torch_rng(self.config.seed, "personal", news.number, self.id),
        )
        return {PERSONAL: encode(state)}

    def _staying(self, tensors: Mapping[str, Tensor]) -> dict[str, bytes]:
        """Of the trained `tensors`, those that a hook lets the next round go on from."""
        stays = self.hooks.stays
        return {} if stays is None else {STAYS: encode({name: t for name, t in tensors.items() if stays(name)})}

    def floats(self, model: Prototype) -> str:
        """What is not quantized travels as."""
        return self.config.floats_of(model.spec.precision.quantized)

    def _trained(self, model: Prototype, news: News, kept: Kept) -> Result:
        config, seen = self.config, None
        if counts_logits(news.extra):
            counted = unpack(decode(kept[LABEL_LOGITS])) if LABEL_LOGITS in kept else {}
            seen = LabelLogits.from_state(counted, model.spec.classes)
        tensors, trained = local_update(
            model,
            self.start(news.update, news.published[self.prototype], kept),
            self.x,
            self.y,
            self.how(news),
            floats=self.floats(model),
            generator=self.rng(news),
            loss_fn=self.hooks.loss or F.cross_entropy,
            objective=make_objective(
                news.learned_from, news.extra, seed=config.seed, number=news.number, device=self.id, seen=seen
            ),
            order=None if self.hooks.batches is None else self.hooks.batches(self, news.number),
        )
        return self.to_send(model, news, tensors), trained.loss, seen

    def how(self, news: News) -> LocalTraining:
        """How it trains in this round."""
        training, hooks = self.config.training, self.hooks
        lr = round_lr(training.lr, news.extra, news.number) if hooks.lr is None else hooks.lr(self, news.number)
        how = replace(training, lr=lr)
        return how if hooks.training is None else hooks.training(how, news.number)

    def rng(self, news: News) -> torch.Generator:
        """What shuffles its samples in this round."""
        return torch_rng(self.config.seed, "train", news.number, self.id)

    def to_send(self, model: Prototype, news: News, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """`tensors`, or what an attacker sends in their place."""
        if self.attack is None or not self.attack.tampers:
            return tensors
        return self._tampered(self.attack, model, news)

    def _header(self, news: News, loss: float) -> UpdateHeader:
        hook = self.hooks.label_counts
        counts = self.claimed_counts if hook is None else tuple(hook(self, news.number))
        return UpdateHeader(
            round=news.number,
            device=self.id,
            prototype=self.prototype,
            update=news.update,  # type: ignore[arg-type]
            num_examples=told_examples(self.claimed_counts),
            label_counts=counts,
            base=news.published[self.prototype].digest,
            metrics={"train_loss": loss} if math.isfinite(loss) else {},
        )

    def _tampered(self, attack: Attack, model: Prototype, news: News) -> dict[str, Tensor]:
        """What an attacker packs instead of the model that it has trained."""
        received = unpack(news.published[self.prototype].tensors)
        attack.tamper_(model, received, torch_rng(self.config.seed, "attack", news.number, self.id))
        return packed_update(model, floats=self.floats(model))


def _reason(error: DivergedError | TensorError) -> str:
    """Why there is no update, in one line."""
    if isinstance(error, DivergedError):
        return str(error)
    if isinstance(error, NonFiniteError):
        return "training diverged: weights are NaN or infinite"
    return f"its update cannot be sent: {error}"


def make_devices(config: SimulationConfig, dataset: Dataset, hooks: Hooks = NO_HOOKS) -> list[SimulatedDevice]:
    """N devices; device i has prototype i mod P and the i-th part of the training set."""
    parts = _parts(config, dataset) if hooks.partition is None else hooks.partition(dataset)
    width = len(str(config.devices - 1))
    attackers = config.attackers
    for i, part in enumerate(parts):
        if not len(part):
            raise ConfigError(f"device {i} got no samples; give fewer devices, more data or a larger alpha")
    return [
        SimulatedDevice(
            number=i,
            id=f"sim-{i:0{width}d}",
            prototype=config.prototypes[i % len(config.prototypes)],
            dataset=dataset,
            rows=part,
            config=config,
            attack=attackers.get(i),
            hooks=hooks,
        )
        for i, part in enumerate(parts)
    ]


def _parts(config: SimulationConfig, dataset: Dataset) -> Sequence[NDArray[np.int64]]:
    return partition(
        config.partition,
        dataset.y_train,
        devices=config.devices,
        alpha=config.alpha,
        seed=config.seed,
        **config.options,
    )
