"""The simulation with real processes on this machine: a broker, an aggregator and N agents.

The folder holds the files that a fleet of boards would have, and one log per process:

    aggregator/   fleet.toml, its key, validation.npz, source.npz, its state (journal, blobs)
    sim-00/ ...   agent.toml, its key, data.npz, its state (outbox, current.onnx, ...)

Devices, data, seeds and the order of fusion equal those of the in-process simulation, so the models are bit-identical.
"""

from __future__ import annotations

import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.storage.journal import Journal
from aggregator.storage.rows import ModelRow, RoundRow, UpdateRow
from core.errors import ConfigError, TransportError
from core.files import write_atomic
from core.lost_devices import FATAL
from core.toml_writer import Inline, toml_text
from fleet.data import Dataset
from fleet.mqtt.processes import Processes
from fleet.mqtt.stored_models import published_states, read_kept_models, stored_updates
from fleet.results.run_file import PrototypeResult, RoundResult, reported_metrics
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import FLEET, SimulatedDevice
from fleet.simulation.own_slice import OwnScore, with_scores
from fleet.simulation.simulation import Group, Simulation
from models.compute_device import devices_of
from transport.config import BrokerConfig
from wire.keys import Ed25519PublicKey, generate_key, public_key_hex, save_private_key

__all__ = ["MqttSimulation"]

POLL_S = 0.1
REFUSALS = 1000  # newest refusals of the journal that are searched for those of a round
OnDevice = Callable[[str], None]


class MqttSimulation:
    """Aggregator and agents as processes; a context manager that starts and stops them."""

    def __init__(self, config: SimulationConfig, dataset: Dataset, folder: Path, broker: BrokerConfig) -> None:
        if config.floats != "auto":
            raise ConfigError("--floats requires --transport memory; agents decide by their prototype's precision")
        self.config = config
        self.folder = folder.resolve()
        self.broker = broker
        # assigns the data only: it trains nothing, and inline does not fork with a broker's thread running
        self.simulation = Simulation(replace(config, engine="inline", address=""), dataset)
        self.processes = Processes(self.folder)

    @property
    def devices(self) -> list[SimulatedDevice]:
        """All devices, by id."""
        return sorted((d for g in self.simulation.groups for d in g.devices), key=lambda d: d.id)

    def __enter__(self) -> MqttSimulation:
        self._check_broker()
        if (self.folder / "aggregator").exists():
            raise ConfigError(f"{self.folder}: holds an earlier fleet; choose another folder or remove it")
        self.write_files()
        self.start_aggregator()
        for device in self.devices:
            self.start_agent(device.id)
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.stop()

    def _check_broker(self) -> None:
        """Fail at once if there is no broker: agents would wait for it indefinitely."""
        address = (self.broker.host, self.broker.port)
        try:
            socket.create_connection(address, timeout=5).close()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise TransportError(
                f"no broker at {address[0]}:{address[1]}: {reason}; start one, or leave --broker out"
            ) from None

    def start_aggregator(self, **environment: str) -> None:
        """Start or restart the aggregator's process."""
        arguments = ["aggregator", "serve", "--config", "aggregator/fleet.toml"]
        self.processes.start("aggregator", arguments, environment)

    def start_agent(self, device: str, **environment: str) -> None:
        """Start or restart a device's process."""
        self.processes.start(device, ["agent", "run", "--config", f"{device}/agent.toml"], environment)

    def rounds(self, *, on_device: OnDevice = lambda _: None) -> Iterator[RoundResult]:
        """Yield rounds as they are closed; `on_device` is called for every accepted update.

        A round in which most devices failed or did not answer is reported with `lost` only. Other abandoned rounds are
        skipped.
        """
        seen: set[tuple[int, str]] = set()
        round_number, closed = 1, 0
        while closed < self.config.rounds:
            self.processes.check()
            row = self._look(round_number, seen, on_device)
            if row is not None and row.phase != "closed" and self._is_hopeless(row):
                round_number += 1
                yield self._result(row, last=False)
            elif row is None or row.phase not in ("closed", "abandoned"):
                time.sleep(POLL_S)
            else:
                round_number += 1
                if row.phase == "closed":
                    closed += 1
                    yield self._result(row, last=closed == self.config.rounds)

    @property
    def state(self) -> Path:
        """The aggregator's state folder."""
        return self.folder / "aggregator" / "state"

    @contextmanager
    def journal(self) -> Iterator[Journal | None]:
        """The aggregator's journal, read-only; None until it exists."""
        try:
            journal = Journal(self.state / "journal.db", read_only=True)
        except ConfigError:
            yield None
            return
        try:
            yield journal
        finally:
            journal.close()

    def _look(self, round_number: int, seen: set[tuple[int, str]], on_device: OnDevice) -> RoundRow | None:
        """The current row of the round in the journal; calls `on_device` for new updates."""
        with self.journal() as journal:
            if journal is None:
                return None
            for update in journal.updates(round_number):
                if (round_number, update.device) not in seen:
                    seen.add((round_number, update.device))
                    on_device(update.device)
            return journal.round(round_number)

    def _is_hopeless(self, row: RoundRow) -> bool:
        """Whether no device is pending any more and more than half of the invited ones are lost."""
        with self.journal() as journal:
            assert journal is not None, "the round came from it"
            lost, answered = self._lost(journal, row), {update.device for update in journal.updates(row.number)}
            asked = {i.device for i in journal.invitations(row.number)} | lost.keys()
            return not asked - answered - lost.keys() and len(lost) > FATAL * len(asked)

    @staticmethod
    def _lost(journal: Journal, row: RoundRow) -> dict[str, str]:
        """Invited devices that will not answer any more, with the reason."""
        refused = {r.device: r.reason for r in journal.refusals(REFUSALS) if r.round == row.number}
        known = {**refused, **journal.excluded(row.number), **journal.failures(row.number)}
        over = row.phase in ("closed", "abandoned")
        answered = {update.device for update in journal.updates(row.number)}
        asked = {i.device for i in journal.invitations(row.number)} | journal.excluded(row.number).keys()
        return {
            device: known.get(device, "no update came in time")
            for device in sorted(asked - answered)
            if over or device in known
        }

    def _result(self, row: RoundRow, *, last: bool) -> RoundResult:
        """The result of a closed round: scores from the models' headers, bytes from the sealed messages.

        After the `last` round no device trains any more, and the devices' own models are scored from their files.
        """
        with self.journal() as journal:
            assert journal is not None, "the round came from it"
            models = {model.digest: model for model in journal.models()}
            invited, updates = journal.invitations(row.number), journal.updates(row.number)
            report, lost = journal.report(row.number), self._lost(journal, row)
        fused = {m.prototype: m for m in models.values() if m.round == row.number and m.origin == "fused"}
        prototype = self.simulation.recipe.side_artifact
        side_artifact = next(
            (m.size for m in models.values() if m.prototype == prototype and m.round == row.number - 1), 0
        )
        own: dict[str, OwnScore] = {}
        if last and self.config.scores_devices(self.config.rounds):
            stored = stored_updates(self.state / "blobs", updates, {i.device: i.model for i in invited})
            read_kept_models(self.folder, self.simulation.devices)
            own = self.simulation.score_devices(stored)
        down: Counter[str] = Counter()
        for i in invited:
            down[i.prototype] += models[i.model].size + side_artifact
        return RoundResult(
            round=row.number,
            prototypes={
                group.name: self._of_prototype(group, fused.get(group.name), updates, down[group.name], own)
                for group in self.simulation.groups
            },
            seconds=(row.closed or row.opened) - row.opened,
            devices=with_scores(report.get("devices", {}), own),
            seconds_by=report.get("seconds", {}),
            lost=lost,
        )

    def _of_prototype(
        self,
        group: Group,
        fused: ModelRow | None,
        updates: Sequence[UpdateRow],
        bytes_down: int,
        own: dict[str, OwnScore],
    ) -> PrototypeResult:
        """One prototype's result of a round; without a `fused` model its accuracy is unknown."""
        metrics = fused.metrics if fused is not None else {}
        mine = [u for u in updates if u.prototype == group.name]
        return PrototypeResult(
            accuracy=metrics.get("accuracy", math.nan),
            loss=metrics.get("loss", math.nan),
            accuracy_float=metrics.get("accuracy_float"),
            train_loss=metrics.get("train_loss"),
            devices=len(mine),
            bytes_up=sum(u.size for u in mine),
            bytes_down=bytes_down,
            **reported_metrics(metrics),
            **self.simulation.spread(group, own),
        )

    def read_models(self, groups: Sequence[Group], round_number: int) -> None:
        """Load the models that round `round_number` has published into these groups."""
        with self.journal() as journal:
            assert journal is not None, "the round came from it"
            fused = {m.prototype: m for m in journal.models() if m.round == round_number and m.origin == "fused"}
        states = published_states(self.state / "blobs", {name: model.digest for name, model in fused.items()})
        for group in groups:
            group.state = states.get(group.name, group.state)

    def write_files(self) -> None:
        """Write the keys, data and configurations of the aggregator and all agents."""
        home = self.folder / "aggregator"
        home.mkdir(parents=True)
        key = generate_key()
        save_private_key(key, home / "aggregator.key")
        simulation = self.simulation
        np.savez(home / "validation.npz", x=simulation.test_x.numpy(), y=simulation.test_y.numpy())
        server = simulation.server
        if server.source is not None:
            np.savez(home / "source.npz", x=server.source.numpy())
        if server.validation is not None:
            np.savez(home / "withheld.npz", x=server.validation[0].numpy(), y=server.validation[1].numpy())
        write_atomic(home / "fleet.toml", self._fleet_toml())
        for device in self.devices:
            folder = self.folder / device.id
            folder.mkdir()
            save_private_key(device.key, folder / "device.key")
            np.savez(folder / "data.npz", x=device.x.numpy(), y=device.y.numpy())
            write_atomic(folder / "agent.toml", self._agent_toml(device, key.public_key()))

    def _fleet_toml(self) -> str:
        config, training = self.config, self.config.training
        spec = self.simulation.groups[0].model.spec
        return toml_text(
            {
                "fleet": {"id": FLEET, "seed": config.seed},
                "broker": self._broker(),
                "state": {"dir": "state", "key": "aggregator.key"},
                "task": {
                    "input_shape": "x".join(map(str, spec.input_shape)),
                    "classes": spec.classes,
                    "latent": config.latent,
                    "validation": "validation.npz",
                },
                "prototypes": {"names": list(config.prototypes)},
                "round": {
                    "rounds": config.rounds,
                    "fraction": config.fraction,
                    "update": config.update,
                    "min_devices": len(self.devices) if config.fraction == 1 else self.simulation.per_round,
                },
                "train": {
                    "lr": training.lr,
                    "batch_size": training.batch_size,
                    "epochs": training.epochs,
                    "steps": training.steps,
                    "momentum": training.momentum,
                    "weight_decay": training.weight_decay,
                    "prox": training.prox,
                    "clip": training.clip,
                    "least_steps": None if training.epochs is None else training.least_steps,
                    "most_steps": None if training.epochs is None else training.most_steps,
                },
                "fusion": self._fusion(),
                "devices": {d.id: Inline(key=public_key_hex(d.key.public_key())) for d in self.devices},
            }
        )

    def _fusion(self) -> dict[str, Any]:
        config, server = self.config, self.simulation.server
        return {
            "recipe": config.recipe,
            "source": "none" if server.source is None else "source.npz",
            "validation": "none" if server.validation is None else "withheld.npz",
            "device": config.compute,
            "amp": config.training.amp,
            "processes": config.processes,
            "score_ensemble": config.score_ensemble,
            **config.fusion,
        }

    def _agent_toml(self, device: SimulatedDevice, aggregator: Ed25519PublicKey) -> str:
        devices = devices_of(self.simulation.server.device)
        return toml_text(
            {
                "agent": {"fleet": FLEET, "device": device.id, "state_dir": "state", "board": "simulated"},
                "broker": self._broker(),
                "keys": {"private": "device.key", "aggregator": public_key_hex(aggregator)},
                "model": {"prototype": device.prototype},
                "train": {
                    "device": str(devices[device.number % len(devices)]),
                    "fast": self.config.training.fast,
                    "amp": self.config.training.amp,
                },
                "data": {
                    "path": "data.npz",
                    "count_epsilon": self.config.count_epsilon,
                    "count_bins": self.config.count_bins,
                },
            }
        )

    def _broker(self) -> dict[str, Any]:
        tls = self.broker.tls
        files = {} if tls is None else {"ca": tls.ca, "cert": tls.cert, "key": tls.key}
        table: dict[str, Any] = {"host": self.broker.host, "port": self.broker.port}
        if tls is not None:
            table["tls"] = {name: str(path) for name, path in files.items() if path is not None}
        return table
