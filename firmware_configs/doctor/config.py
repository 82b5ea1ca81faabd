"""An agent.toml: keys, samples, clock and broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from core.errors import EdgestillError
from core.settings import replace
from edge_agent.config import AgentConfig, EnrolConfig, enrolled
from edge_agent.enrolment import own_keys
from firmware_configs.doctor.clock import check_clock
from firmware_configs.doctor.connection import check_agent, check_broker, check_certificate
from firmware_configs.doctor.findings import Finding, finding
from transport.config import TlsConfig
from wire.enrolment import fingerprint, shown
from wire.keys import load_private_key

__all__ = ["check_config"]


def check_config(config: AgentConfig, folder: Path) -> Iterator[Finding]:
    """Checks of the configuration in `folder`, where the kit's other files are too."""
    yield Finding("ok", "config", f"{config.device} of {config.fleet}, {config.prototype}, {config.train.mode}")
    if config.enrol is not None and not enrolled(config.enrol):
        yield _not_enrolled(config.enrol)
    else:
        yield _tried("signing key", lambda: load_private_key(config.private_key) and "usable")
    yield _tried("aggregator's key", lambda: config.aggregator_key() and "usable")
    path = config.data.path
    there = config.data.kind == "python" or (path.exists() if config.data.kind in ("folder", "csv") else path.is_file())
    missing = f"there is no {'folder' if config.data.kind == 'folder' else 'file'} {path}: the agent waits for samples"
    yield finding(there, "samples", str(path), missing, level="warning")
    if config.enrol is not None and not enrolled(config.enrol):
        tls = TlsConfig(ca=config.enrol.ca, cert=config.enrol.cert, key=config.enrol.key)
        config = replace(config, broker=replace(config.broker, tls=tls))
    yield from check_clock(config, folder)
    yield from check_certificate(config)
    yield from check_agent(config)
    yield check_broker(config)


def _not_enrolled(enrol: EnrolConfig) -> Finding:
    """The fingerprint for the operator to compare, once the agent has generated its keys."""
    if not (enrol.identity / "device.key").exists():
        return Finding("warning", "enrolment", "not asked for yet; start the agent")
    tls, signing = own_keys(enrol.identity)
    keys = shown(fingerprint(tls.public_key(), signing.public_key()))
    return Finding("warning", "enrolment", f"not approved yet: fingerprint {keys}; edgestill device approve")


def _tried(what: str, use: Callable[[], Any]) -> Finding:
    try:
        return Finding("ok", what, str(use()))
    except EdgestillError as error:
        return Finding("failure", what, str(error))
