"""Mosquitto configuration of one fleet: TLS only, client certificates required, each device limited to its topics.

`render` returns the files of one folder, which is copied to the broker's machine. Mosquitto 2.1 has access lists in a
plugin, 2.0 has them built in; the list itself is the same.

The resources that one device can occupy at the broker are bounded. Mosquitto does not limit the number of retained
messages of a client; the access list does, because it has no wildcard in the topics that a device may write: at most
one message on each of `_UP`.

    retained   len(_UP) * MAX_PACKET bytes for each device
    queued     QUEUE_MESSAGES messages and QUEUE_BYTES bytes for each client that does not read
    sessions   one for each certificate: its common name is the client id
    total      subscriptions, which Mosquitto does not limit either, and all of the above: `memory_limit`
"""

from __future__ import annotations

from collections.abc import Collection

from wire.enrolment import claim_name
from wire.topics import ROOT, VERSION

__all__ = ["FOLDER", "acl", "conf"]

FOLDER = "/etc/mosquitto/edgestill"
#: Its path in Mosquitto's own images; a comment in the configuration has the path of Debian's package.
ACL_PLUGIN = "/usr/lib/mosquitto_acl_file.so"
_UP = ("state", "about", "metrics", "telemetry", "log", "reported", "installing", "predicted", "up")
_DOWN = (
    "job",
    "ack",
    "desired",
    "ask",
    "predict",
    "state",
)  # its own state too, so that an agent can correct a late will
#: Chunks have 64 KiB, and nothing else that agents and aggregators send is larger (aggregator/intake/access.py: 256
# KiB).
MAX_PACKET = 300_000
#: A model of 50 MB is 800 chunks, which a device subscribes to at once.
QUEUE_MESSAGES, QUEUE_BYTES = 1000, 64 * 2**20


#: The access list: built in, or a plugin.
_ACCESS = {
    "2.0": "acl_file {folder}/acl",
    "2.1": """\
# Debian's package has the plugin in /usr/lib/ARCHITECTURE-linux-gnu/mosquitto/, such as aarch64 or x86_64
plugin {plugin}
plugin_opt_acl_file {folder}/acl""",
}
_CONF = """\
# Mosquitto {version} for an edgestill fleet; written by `edgestill provision`, which will replace it.
# After a revocation copy crl.pem here again and reload the broker (SIGHUP).
# Logs every publication that the access list denies, and every subscription; shorter logs have neither.
log_type all
listener {port}
allow_anonymous false
cafile {folder}/ca.pem
certfile {folder}/broker.pem
keyfile {folder}/broker.key
crlfile {folder}/crl.pem
require_certificate true
use_identity_as_username true
# no client can disconnect another by using its client id
use_username_as_clientid true
tls_version tlsv1.2
{access}
# Limits per client. The access list bounds retained messages: devices write to no wildcard topics.
max_packet_size {max_packet}
max_queued_messages {queue_messages}
max_queued_bytes {queue_bytes}
max_inflight_messages 20
# The overall limit, mainly for subscriptions: clients beyond it are disconnected. From [provision] broker_mb.
memory_limit {memory_limit}
# Retained messages are published again by their senders; nothing is stored for disconnected clients.
persistence false
persistent_client_expiration 1h
"""


def memory_limit(devices: int, memory_mb: int) -> int:
    """Bytes that the broker may allocate: `memory_mb` for models and queues, plus retained messages of all devices."""
    return memory_mb * 2**20 + devices * len(_UP) * MAX_PACKET


def conf(
    version: str,
    *,
    port: int,
    devices: int = 0,
    memory_mb: int = 1024,
    folder: str = FOLDER,
    acl_plugin: str = ACL_PLUGIN,
) -> str:
    """A mosquitto.conf for version "2.0" or "2.1" and a fleet of that many devices, with its files in `folder`."""
    return _CONF.format(
        version=version,
        port=port,
        folder=folder,
        access=_ACCESS[version].format(folder=folder, plugin=acl_plugin),
        max_packet=MAX_PACKET,
        queue_messages=QUEUE_MESSAGES,
        queue_bytes=QUEUE_BYTES,
        memory_limit=memory_limit(devices, memory_mb),
    )


def acl(fleet: str, enrolling: Collection[str] = ()) -> str:
    """The access list; user names are the common names of certificates.

    Patterns apply to all users, so topics that a board of `enrolling` must not access with only its claim are denied by
    name.
    """
    base = f"{ROOT}/{VERSION}/{fleet}"
    lines = ["user aggregator", f"topic readwrite {base}/#", ""]
    for device in enrolling:
        name = claim_name(device)
        lines += [f"user {name}", f"topic deny {base}/all/#", f"topic deny {base}/{name}/#"]
        lines += [f"topic write {base}/{device}/enrol", f"topic read {base}/{device}/enrolled", ""]
    lines += [f"pattern write {base}/%u/{end}" for end in _UP]
    lines += [f"pattern read {base}/%u/{end}" for end in _DOWN]
    lines += [f"pattern read {base}/all/model/#"]
    return "\n".join(lines) + "\n"
