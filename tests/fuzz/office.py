"""The service's handlers in this process, with a round open for the hostile devices; and the decoders by themselves."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from aggregator.config.fleet import load_fleet_config
from aggregator.fusion.types import Memory
from aggregator.intake.access import Gate
from aggregator.intake.checks import Asked, check_update
from aggregator.intake.transfers import Uploads
from aggregator.recipes.catalogue import find_recipe
from aggregator.rounds.state import Verdict
from aggregator.service import Service
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Invitation, UpdateRow
from aggregator.tensor_checks import describe_model
from aggregator.worker.fuse_round import Fuser, StoredGroup
from core.errors import EdgestillError
from quant.onnx.weights import read_weights
from tests.aggregator.journals import a_model, a_round
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from tests.fuzz import world
from tests.fuzz.cases import DEVICES, MESSAGES, Case
from transport.config import BrokerConfig
from wire.chunks import decode_chunk
from wire.enrolment import read_request
from wire.headers import decode_model, decode_update
from wire.ids import AGGREGATOR
from wire.tensors import decode
from wire.topics import DeviceTopic, UpdateChunk, parse

__all__ = ["BUDGETS", "LIMITS", "Decoders", "Office", "prepare_state"]

#: A device that is muted is not looked at any more; nor is one that has spent its budgets, and how soon that is depends
#: on the machine's speed.
LIMITS = "garbage_before_mute = 1000000"
BUDGETS = """messages_per_minute = 1000000000
mb_per_minute = 1000000
reports_per_minute = 1000000000
transfers_per_minute = 1000000000
cpu_s_per_minute = 1000000
"""
NOW = datetime.now(timezone.utc)


def prepare_state(folder: Path, devices: dict[str, str], **changes: object) -> None:
    """A state folder with first models, and a round to which `devices` (with their prototypes) are asked."""
    folder.mkdir(parents=True)
    blobs, journal = Blobs(folder / "blobs"), Journal(folder / "journal.db")
    with journal.transaction():
        for prototype in world.PROTOTYPES:
            sealed = world.artifact(prototype)
            row = a_model(prototype, prototype, size=len(sealed), digest=blobs.put(sealed))
            journal.add_model(row)
        if devices:
            asked = [Invitation(device=d, prototype=p, model=world.digest(p)) for d, p in devices.items()]
            journal.open_round(a_round(deadline=4e9, **changes), asked)
    blobs.close()
    journal.close()


class Office:
    """A service that is not connected; messages are handed to it as the link would."""

    def __init__(self, folder: Path, *, all_looks: bool = True) -> None:
        prepare_state(folder / "state", dict(DEVICES))
        ca = folder / "ca.pem"
        ca.write_bytes(world.authority().public_bytes(serialization.Encoding.PEM))
        path = write_fleet(
            folder,
            BrokerConfig(),
            [*DEVICES],
            prototypes=f"!names = {list(world.PROTOTYPES)}".replace("'", '"'),
            limits=f"{LIMITS}\n{BUDGETS}",
            **{"broker.tls": f'ca = "{ca}"'},
        )
        self.service = Service(load_fleet_config(path))
        if all_looks:
            self.service.downlink.enrolments._looks.take = lambda device, now: True  # type: ignore[method-assign]
        self.refused: Counter[str] = Counter()
        self.accepted: dict[str, UpdateRow] = {}  # by digest

    def hand_in(self, case: Case) -> None:
        """As it would arrive; nothing may come out of it."""
        before = sum(self.service.notes.bad.values()) + len(self.service.inbox.desk._refused)
        for topic, payload in case.messages:
            self.service.inbox.receive(topic, payload)
        self.refused[case.kind] += sum(self.service.notes.bad.values()) + len(self.service.inbox.desk._refused) - before
        for device, row in self.service.inbox.desk._accepted.items():  # else the device has answered, and that is all
            self.accepted[row.digest] = row
            self.service.inbox.desk.uploads.drop(device, row.transfer)
        self.service.inbox.desk._accepted = {}
        if case.number % 25 == 0:
            self.settle()

    def settle(self) -> None:
        """What a pass of the loop does with what has come."""
        self.service.inbox.desk.flush()
        self.service.blobs.adopt()
        self.service.notes.keep(at_once=True)
        self.service.installs.keep(at_once=True)
        self.service.downlink.enrolments.say()
        self.service.downlink.desired.say()

    def fuse_accepted(self, step: int = 1) -> int:
        """Every accepted mutant fused by itself, or each `step`-th; how many were accepted."""
        self.settle()
        fuser = Fuser(self.service.blobs, key_of(AGGREGATOR), FLEET)
        for row in [*self.accepted.values()][::step]:
            group = StoredGroup(spec=world.spec_of(row.prototype), base=world.digest(row.prototype), rows=[row])
            fuser.fuse(find_recipe("fedavg"), 1, [group], Memory())
        return len(self.accepted)

    def close(self) -> None:
        self.service._end()


class Decoders:
    """Every decoder that a message meets. Only our own errors may come out of them."""

    def __init__(self, folder: Path) -> None:
        keys = {device: key_of(device).public_key() for device in DEVICES}
        self.gate = Gate(keys, fleet=FLEET, garbage_before_mute=10**9, mute_s=1.0, now=lambda: 0.0)
        self.uploads = Uploads(folder / "parts", max_size=10**8, per_device=2, max_bytes=10**9)
        self.published = {
            prototype: describe_model(decode(decode_model(payload(world.artifact(prototype)))[1]))
            for prototype in world.PROTOTYPES
        }
        self.heard: Counter[str] = Counter()

    def meet(self, case: Case) -> None:
        try:
            self._decode(case)
            self.heard["sound"] += 1
        except EdgestillError as error:
            text = str(error)
            assert "\n" not in text
            self.heard[re.sub(r"'.*?'|\".*?\"|\d+|…", "_", text)] += 1

    def _decode(self, case: Case) -> None:
        if case.kind in MESSAGES:
            topic = parse(case.messages[0][0])
            assert isinstance(topic, DeviceTopic)
            self.gate.open(topic, case.body)
        elif case.kind == "enrol":
            read_request(case.body, fleet=FLEET, device=case.device, authority=world.authority(), now=NOW)
        elif case.kind == "chunk":
            for topic, data in case.messages:
                if isinstance(parse(topic), UpdateChunk):
                    self.uploads.add(case.device, decode_chunk(data))
        elif case.kind == "update-onnx":
            _, body = decode_update(payload(case.body))
            read_weights(body)
        else:
            self._check(case)

    def _check(self, case: Case) -> None:
        prototype = DEVICES[case.device]
        check_update(
            case.body,
            device=case.device,
            key=key_of(case.device).public_key(),
            fleet=FLEET,
            judge=lambda number: Verdict(),
            asked=lambda number: Asked(
                prototype=prototype,
                model=world.digest(prototype),
                classes=world.CLASSES,
                published=self.published[prototype],
            ),
            replayed=lambda nonce: False,
        )


def payload(sealed: bytes) -> bytes:
    """What is in an envelope, whoever signed it."""
    return sealed[2 + sealed[1] : -64]
