"""Other versions of edgestill for devices: which have what, and one rollout at a time.

The bundle is signed by the fleet's kit key, which the service does not have; `edgestill device update` signs it, puts
it in `bundles/` of the state folder and leaves a command. Rows of `meta`:

    rollout             the last one: aggregator/downlink/rollout.py
    upgraded:DEVICE     what the device said last of an upgrade
    software:DEVICE     {"version": "0.3.0+k1f9a3c27", "upgrades": "1"}, or why it cannot install any

Chunks of the bundle are retained at the broker while a device may fetch it. A device gets an `Upgrade` only if it has
announced that it reads it; the message is cleared when the device has reported the end.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aggregator.downlink.rollout import FINAL, Progress, Rollout, next_look, offered, rollout_opens, stage_of, why_stop
from aggregator.downlink.signed import Publish, SignedMessages
from aggregator.intake.contained import Complaints
from aggregator.intake.transfers import PathStorage
from aggregator.storage.artifacts import content_of
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from core.crashpoints import reach
from core.errors import ConfigError, EdgestillError
from wire.chunks import encode_chunk
from wire.ids import DIGEST
from wire.keys import Ed25519PrivateKey
from wire.messages import TAKES_UPGRADES, Upgrade, Upgraded
from wire.topics import ModelChunk

__all__ = ["ABORT", "BUNDLES", "UPGRADE", "Upgrades", "device_software", "rollout_facts", "unable_devices"]

log = logging.getLogger("edgestill.aggregator")
UPGRADE, ABORT = "upgrade", "abort-upgrade"  # the verbs of the commands
BUNDLES = "bundles"  # a folder of the state folder
NAME, YES = TAKES_UPGRADES
TOO_OLD = "its edgestill does not install upgrades; push or flash a kit"
SILENT = "it is online, and nothing was heard; is the broker's access list older? run `edgestill broker install` again"
SILENT_S = 120.0  # after which an online device should have answered an offer


def _rows(journal: Journal, prefix: str) -> dict[str, Any]:
    query = "SELECT substr(key, ?), value FROM meta WHERE key >= ? AND key < ?"  # ';' follows ':'
    rows = journal.db.execute(query, (len(prefix) + 2, f"{prefix}:", f"{prefix};")).fetchall()
    return {device: json.loads(value) for device, value in rows}


def _read_rollout(journal: Journal) -> Rollout | None:
    text = journal.get("rollout")
    return msgspec.json.decode(text, type=Rollout) if text else None


def _read_progress(journal: Journal) -> dict[str, Progress]:
    return {device: msgspec.convert(row, Progress) for device, row in _rows(journal, "upgraded").items()}


def unable_devices(journal: Journal) -> dict[str, str]:
    """Devices that have announced that they take no upgrade, and why."""
    return _unable(_rows(journal, "software"))


def _unable(software: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {device: row["upgrades"] or TOO_OLD for device, row in software.items() if row["upgrades"] != YES}


def device_software(journal: Journal, now: float) -> dict[str, dict[str, str]]:
    """Of each device its `version`, and the stage and reason of its upgrade in the last rollout, if it has a part."""
    found = {device: {"version": row["version"]} for device, row in _rows(journal, "software").items()}
    rollout = _read_rollout(journal)
    for row in () if rollout is None else rollout_facts(journal, now)["devices"]:
        told = {"upgrade": row["stage"], "upgrade_reason": row["reason"], "upgrade_to": rollout.version}  # type: ignore[union-attr]
        found[row["id"]] = {**found.get(row["id"], {"version": ""}), **told}
    return found


def rollout_facts(journal: Journal, now: float) -> dict[str, Any]:
    """The last rollout, as `edgestill device update --status --json` prints it; empty if there was none."""
    rollout = _read_rollout(journal)
    if rollout is None:
        return {}
    heard, software = _read_progress(journal), _rows(journal, "software")
    online = {row.id for row in journal.devices() if row.status == "online"}
    late = rollout_opens(rollout, heard) + SILENT_S < now
    devices = []
    for device in rollout.devices:
        stage, reason, told = stage_of(rollout, device, heard, now), "", heard.get(device)
        if told is not None and told.number == rollout.number:
            reason = told.reason
        elif device in software and software[device]["upgrades"] != YES and stage == "offered":
            stage, reason = "refused", software[device]["upgrades"] or TOO_OLD
        elif stage == "offered" and device in online and late:
            reason = SILENT
        devices.append(
            {
                "id": device,
                "stage": stage,
                "reason": reason,
                "version": software.get(device, {}).get("version", ""),
                "progress": told.progress if told is not None and stage == "fetching" else None,
                "canary": device in rollout.devices[: rollout.canary],
            }
        )
    facts = {name: getattr(rollout, name) for name in ("bundle", "size", "number", "version", "canary", "wait_s")}
    return {**facts, "begun": rollout.begun, "stopped": rollout.stopped, "devices": devices}


class Upgrades(SignedMessages):
    """Publishes the bundle and its offers, and keeps what devices say of them."""

    def __init__(
        self,
        publish: Publish,
        *,
        folder: Path,
        clock: Callable[[], float],
        key: Ed25519PrivateKey,
        fleet: str,
        journal: Journal,
    ) -> None:
        super().__init__(publish, key=key, fleet=fleet, journal=journal)
        self._clock = clock
        self._folder = folder / BUNDLES
        self._rollout = _read_rollout(journal)
        self._heard = _read_progress(journal)
        self._software: dict[str, dict[str, str]] = _rows(journal, "software")
        self._unkept: dict[str, str] = {}
        self._said: dict[str, bool] = {}  # by device: whether the offer is there, or cleared
        self._there: tuple[str, int] | None = None  # the bundle at the broker, and its size
        self._look = 0.0  # when to look what is to be said
        self._complaints = Complaints()

    def forget(self) -> None:
        """A new connection: nothing is published yet."""
        self._said.clear()
        self._there, self._look = None, 0.0

    def introduced(self, device: str, versions: Mapping[str, str]) -> None:
        """A device has announced its versions."""
        facts = {"version": versions.get("edgestill", ""), "upgrades": versions.get(NAME, "")}
        before = self._software.get(device)
        if before == facts:
            return
        if before is not None and before["version"] != facts["version"]:
            log.info(
                "device %r: edgestill %s, before %s",
                device,
                facts["version"],
                before["version"],
                extra={"device": device},
            )
        self._software[device] = facts
        self._unkept[f"software:{device}"] = json.dumps(facts)
        self._look = 0.0

    def heard(self, device: str, upgraded: Upgraded) -> None:
        """A device reports; `keep` writes it to the journal."""
        before = self._heard.get(device)
        facts = msgspec.structs.asdict(upgraded)
        told = Progress(**facts, time=before.time if before and _same_end(before, upgraded) else self._clock())
        if told == before:
            return
        self._heard[device] = told
        self._unkept[f"upgraded:{device}"] = msgspec.json.encode(told).decode()
        self._look = 0.0
        if self._complaints.new(device, f"{upgraded.number} {upgraded.phase}"):
            level = logging.WARNING if upgraded.phase in ("back", "refused") else logging.INFO
            log.log(
                level,
                "device %r: upgrade: %s%s",
                device,
                _in_words(upgraded),
                upgraded.reason,
                extra={"device": device},
            )

    def keep(self) -> None:
        """Write what devices have said, and whether it ends the rollout, to the journal."""
        rollout, reason = self._rollout, ""
        if self._unkept and rollout is not None:
            reason = why_stop(rollout, self._heard, _unable(self._software))
        if not self._unkept:
            return
        with self._journal.transaction():
            for name, text in self._unkept.items():
                self._journal.put(name, text)
            if rollout is not None and reason:
                rollout = msgspec.structs.replace(rollout, stopped=reason)
                self._write(rollout)
        self._unkept.clear()
        if rollout is not None and reason:
            self._follow(rollout)
            log.warning("the upgrade to %s is stopped: %s", rollout.version, reason)

    def run(self, command: Command, now: float) -> None:
        """Begin a rollout, or end it."""
        try:
            rollout = self._begun(json.loads(command.argument), now) if command.verb == UPGRADE else self._aborted()
        except (EdgestillError, msgspec.MsgspecError, ValueError) as error:
            with self._journal.transaction():
                self._journal.answer(command.id, str(error), failed=True)
            return
        with self._journal.transaction():
            self._write(rollout)
            self._journal.answer(command.id, rollout.stopped or f"{len(rollout.devices)} devices")
        self._follow(rollout)
        reach("aggregator-rollout-kept")
        log.info("upgrade to %s: %s", rollout.version, rollout.stopped or f"{len(rollout.devices)} devices")

    def _begun(self, asked: dict[str, Any], now: float) -> Rollout:
        rollout = msgspec.convert({**asked, "begun": now}, Rollout)
        if not DIGEST.fullmatch(rollout.bundle) or not (self._folder / rollout.bundle).is_file():
            raise ConfigError(f"bundle {rollout.bundle[:12]}… is not in {self._folder}; run the command again")
        former = self._rollout
        if former is not None and not former.stopped:
            open_ = [d for d in former.devices if stage_of(former, d, self._heard, now) not in FINAL]
            waits = [d for d in open_ if self._software.get(d, {}).get("upgrades", YES) == YES]
            if waits:
                raise ConfigError(
                    f"the upgrade to {former.version} is not over: {waits[0]} and {len(waits) - 1} more;"
                    " wait, or end it with `edgestill device update --abort`"
                )
        if reason := why_stop(rollout, {}, _unable(self._software)):
            raise ConfigError(f"a canary takes no upgrade: {reason}; choose others")
        return rollout

    def _aborted(self) -> Rollout:
        if self._rollout is None or self._rollout.stopped:
            raise ConfigError("no upgrade is under way")
        return msgspec.structs.replace(self._rollout, stopped="ended by the operator")

    def _write(self, rollout: Rollout) -> None:
        """Inside a transaction."""
        self._journal.put("rollout", msgspec.json.encode(rollout).decode())

    def _follow(self, rollout: Rollout) -> None:
        """It is durable."""
        if self._rollout is not None and self._rollout.number != rollout.number:
            self._said.clear()
        self._rollout, self._look = rollout, 0.0

    # ---- publishing

    def say(self) -> None:
        """Publish the bundle and the offers that are due, and clear what is over."""
        rollout = self._rollout
        if rollout is None or self._clock() < self._look:
            return
        self._look = next_look(rollout, self._heard)
        now = self._clock()
        if self._look <= now:
            self._look = float("inf")
        wanted = {d for d in offered(rollout, self._heard, now) if self._waits(rollout, d)}
        if wanted and not self._say_bundle(rollout.bundle, rollout.size):
            self._look = 0.0
            return
        for device in rollout.devices:
            if self._said.get(device) is not (device in wanted):
                if not self._send(device, "upgrade", _offer(rollout, device) if device in wanted else None):
                    self._look = 0.0
                    return
                self._said[device] = device in wanted
        if not wanted:
            self._clear(rollout)

    def _waits(self, rollout: Rollout, device: str) -> bool:
        """Whether a device that is offered the bundle has yet to say how it ended, and will."""
        told = self._heard.get(device)
        over = told is not None and told.number == rollout.number and told.phase in FINAL
        return not over and self._software.get(device, {}).get("upgrades") == YES

    def _say_bundle(self, digest: str, size: int) -> bool:
        if self._there == (digest, size):
            return True
        path = self._folder / digest
        if not path.is_file():
            if self._complaints.new(digest, "gone"):
                log.error("%s is gone; run `edgestill device update --abort` and the update again", path)
            return False
        content, source = content_of(digest, size), PathStorage(path)
        for n in range(content.count):
            chunk = encode_chunk(content, n, source.read(*content.span(n)))
            if not self._publish(str(ModelChunk(self._fleet, digest, n)), chunk, True):
                return False
        self._there = digest, size
        reach("aggregator-bundle-published")
        return True

    def _clear(self, rollout: Rollout) -> None:
        """Nobody fetches the bundle any more; a broker that was restarted meanwhile has nothing to clear."""
        if self._there is None:
            return
        digest, size = self._there
        for n in range(content_of(digest, size).count):
            if not self._publish(str(ModelChunk(self._fleet, digest, n)), b"", True):
                return
        self._there = None
        log.info("upgrade to %s: over", rollout.version)


def _offer(rollout: Rollout, device: str) -> Upgrade:
    return Upgrade(device=device, number=rollout.number, bundle=rollout.bundle, version=rollout.version)


def _same_end(before: Progress, upgraded: Upgraded) -> bool:
    return (before.number, before.phase) == (upgraded.number, upgraded.phase)


def _in_words(upgraded: Upgraded) -> str:
    told = {"back": "went back to the former version: ", "refused": "refused: ", "trial": "on trial"}
    return told.get(upgraded.phase, upgraded.phase)
