"""One simulated device, honest or adversarial: its data and state, and its update for a round.

A device is cheap until it trains: its samples are rows of the dataset that all devices share, and its key is derived
from the seed on first use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

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
from edge_agent.training.sgd import train_local
from fleet.attacks.builtin import Attack
from fleet.data import Dataset
from fleet.partition import partition
from fleet.simulation.config import SimulationConfig
from fleet.simulation.hooks import NO_HOOKS, Hooks
from fleet.simulation.own_code.local import find_loss, find_objective, own_loop
from fleet.simulation.round_message import Artifact, News
from fleet.simulation.seeds import numpy_rng, torch_rng
from fleet.simulation.settings.layers import about
from models.compute_device import CPU
from models.split import Prototype
from quant.pack import pack_state, unpack
from wire.headers import encode_update
from wire.keys import Ed25519PrivateKey
from wire.messages import UpdateHeader
from wire.tensors import Tensor, decode, encode

__all__ = ["FLEET", "STAYS", "Answer", "Kept", "Result", "SimulatedDevice", "make_devices"]

FLEET = "simulated"
STAYS = "stays"  # key in a device's local state: the tensors that the hook `stays` selects
Kept = Mapping[str, bytes]  # local state of a device between rounds, in the format of the agent's files
#: The tensors to send, the loss, and the logits by label if the job requests them.
Result = tuple[Mapping[str, Tensor], float, LabelLogits | None]
Train = Callable[[Prototype, News, Kept], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A device's result for a round."""

    message: bytes | None  # the encoded update, not sealed (see `SimulatedDevice.answer`); None: no update
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
        """Its samples, computed at every call."""
        return torch.from_numpy(self.dataset.train_inputs(self.rows))

    @property
    def y(self) -> torch.Tensor:
        """Its training labels, as an attack may have changed them."""
        y = torch.from_numpy(self.dataset.y_train[self.rows])
        return y if self.attack is None else self.attack.labels(y, self.dataset.classes)

    @cached_property
    def key(self) -> Ed25519PrivateKey:
        """The signing key of its agent over MQTT; also seeds the noise of label counts with either transport."""
        return Ed25519PrivateKey.from_private_bytes(numpy_rng(self.config.seed, "key", self.number).bytes(32))

    @cached_property
    def label_counts(self) -> tuple[int, ...]:
        """The label counts that it reports, noised or rounded as configured."""
        config, counts = self.config, np.bincount(self.y.numpy(), minlength=self.dataset.classes)
        secret = b"" if config.count_epsilon is None else self.key.private_bytes_raw()
        return told_counts(counts.tolist(), secret=secret, epsilon=config.count_epsilon, width=config.count_bins)

    @property
    def true_counts(self) -> tuple[int, ...]:
        """The label counts of its samples, before attacks, noise and rounding."""
        counts = np.bincount(self.dataset.y_train[self.rows], minlength=self.dataset.classes)
        return tuple(int(n) for n in counts)

    @property
    def claimed_counts(self) -> tuple[int, ...]:
        """The label counts in the headers of its updates; an attack may falsify them."""
        return self.label_counts if self.attack is None else self.attack.claims(self.label_counts)

    def start(self, update: str, published: Artifact, kept: Kept) -> Mapping[str, Tensor]:
        """The published model, overridden by the tensors that the device keeps."""
        own = decode(kept[STAYS]) if self.hooks.stays is not None and STAYS in kept else {}
        if update not in KEEPING or EXTRACTOR not in kept:
            return {**published.tensors, **own} if own else published.tensors
        return {**decode(with_own(update, published.data, decode(kept[EXTRACTOR]))), **own}

    def answer(
        self, model: Prototype, news: News, kept: Kept, train: Train | None = None, *, device: torch.device = CPU
    ) -> Answer:
        """Train on `device` and encode the update; `kept` is the device's local state from the previous round.

        The update has no envelope and no checksum, which protect messages in transit: it goes straight to the parent
        process.
        """
        begun = time.perf_counter()
        try:
            tensors, loss, seen = (train or partial(self._trained, device=device))(model, news, kept)
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
        personal = self._personal(model, news, kept, tensors, device)
        beside = time.perf_counter() - encoded
        return Answer(
            message=message,
            kept={**made.keep, **counted, **personal, **self._staying(tensors)},
            train_s=done - begun + beside,
            encode_s=encoded - done,
        )

    def _personal(
        self, model: Prototype, news: News, kept: Kept, update: Mapping[str, Tensor], device: torch.device
    ) -> dict[str, bytes]:
        """Its personal model if the job requests one; `model` holds the update, or `update` is all of it."""
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
            self.training_of(news),
            asked=asked,
            floats=self.floats(model),
            generator=torch_rng(self.config.seed, "personal", news.round_number, self.id),
            device=device,
        )
        return {PERSONAL: encode(state)}

    def _staying(self, tensors: Mapping[str, Tensor]) -> dict[str, bytes]:
        """The trained tensors that the hook `stays` carries over to the next round."""
        stays = self.hooks.stays
        return {} if stays is None else {STAYS: encode({name: t for name, t in tensors.items() if stays(name)})}

    def floats(self, model: Prototype) -> str:
        """The wire dtype of unquantized tensors."""
        return self.config.floats_of(model.spec.precision.quantized)

    def _trained(self, model: Prototype, news: News, kept: Kept, *, device: torch.device) -> Result:
        config, seen = self.config, None
        if counts_logits(news.extra):
            counted = unpack(decode(kept[LABEL_LOGITS])) if LABEL_LOGITS in kept else {}
            seen = LabelLogits.from_state(counted, model.spec.classes)
        tensors, trained = local_update(
            model,
            self.start(news.update, news.published[self.prototype], kept),
            self.x,
            self.y,
            self.training_of(news),
            floats=self.floats(model),
            generator=self.rng(news),
            loss_fn=self.hooks.loss or find_loss(config.objective) or F.cross_entropy,
            objective=find_objective(config.objective)
            or make_objective(
                news.learned_from,
                news.extra,
                seed=config.seed,
                number=news.round_number,
                device=self.id,
                seen=seen,
                compute_device=device,
            ),
            device=device,
            order=None if self.hooks.batches is None else self.hooks.batches(self, news.round_number),
            loop=own_loop(config.train, {"round_number": news.round_number, "device": self.id}) or train_local,
        )
        return self.to_send(model, news, tensors), trained.loss, seen

    def training_of(self, news: News) -> LocalTraining:
        """Its hyper-parameters in this round."""
        training, hooks = self.config.training, self.hooks
        lr = (
            round_lr(training.lr, news.extra, news.round_number)
            if hooks.lr is None
            else hooks.lr(self, news.round_number)
        )
        training = replace(training, lr=lr)
        return training if hooks.training is None else hooks.training(training, news.round_number)

    def rng(self, news: News) -> torch.Generator:
        """The generator that shuffles its samples in this round."""
        return torch_rng(self.config.seed, "train", news.round_number, self.id)

    def to_send(self, model: Prototype, news: News, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The tensors to send: `tensors`, or those that an attack substitutes."""
        if self.attack is None or not self.attack.tampers:
            return tensors
        return self._tampered(self.attack, model, news)

    def _header(self, news: News, loss: float) -> UpdateHeader:
        hook = self.hooks.label_counts
        counts = self.claimed_counts if hook is None else tuple(hook(self, news.round_number))
        return UpdateHeader(
            round=news.round_number,
            device=self.id,
            prototype=self.prototype,
            update=news.update,  # type: ignore[arg-type]
            num_examples=told_examples(self.claimed_counts),
            label_counts=counts,
            base=news.published[self.prototype].digest,
            metrics={"train_loss": loss} if math.isfinite(loss) else {},
        )

    def _tampered(self, attack: Attack, model: Prototype, news: News) -> dict[str, Tensor]:
        """The packed tensors that an attack sends instead of the trained model."""
        received = unpack(news.published[self.prototype].tensors)
        attack.tamper_(model, received, torch_rng(self.config.seed, "attack", news.round_number, self.id))
        return packed_update(model, floats=self.floats(model))


def _reason(error: DivergedError | TensorError) -> str:
    """One line that explains why there is no update."""
    if isinstance(error, DivergedError):
        return str(error)
    if isinstance(error, NonFiniteError):
        return "training diverged: weights are NaN or infinite"
    return f"its update cannot be sent: {error}"


def make_devices(config: SimulationConfig, dataset: Dataset, hooks: Hooks = NO_HOOKS) -> list[SimulatedDevice]:
    """N devices; device i has prototype i mod P and the i-th part of the training set."""
    with about("option", "partition", "devices"):
        parts = _parts(config, dataset) if hooks.partition is None else hooks.partition(dataset)
    width = len(str(config.devices - 1))
    attackers = config.attackers
    for i, part in enumerate(parts):
        if not len(part):
            with about("devices", "alpha"):
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
