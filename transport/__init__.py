"""The way to the broker: one MQTT connection that comes back by itself, and a small broker for demos. No torch."""
