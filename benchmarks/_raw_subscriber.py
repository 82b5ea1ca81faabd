"""Counts the messages of one bare paho subscriber: `_raw_subscriber.py PORT TOPIC MESSAGES QOS`, run by mqtt_load.py.

Prints `ready` when it is subscribed, its count every `EVERY` messages, then one JSON object: messages, bytes, and the
time of the last one (seconds of the system's monotonic clock). It stops after 3 s without a message: a broker may drop
messages for a slow reader.
"""

from __future__ import annotations

import json
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

QUIET_S = 3.0
EVERY = 32


def main(port: int, topic: str, expected: int, qos: int) -> None:
    count = size = 0
    last = time.monotonic()

    def on_message(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        nonlocal count, size, last
        count, size, last = count + 1, size + len(message.payload), time.monotonic()
        if count % EVERY == 0:
            print(count, flush=True)

    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="raw-subscriber")
    client.on_message = on_message
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.connect("127.0.0.1", port)
    client.subscribe(topic, qos)
    while count < expected and (count == 0 or time.monotonic() - last < QUIET_S):
        client.loop(0.2)
    print(json.dumps({"messages": count, "bytes": size, "last": last}), flush=True)
    client.disconnect()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
