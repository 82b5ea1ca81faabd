"""Connection to the broker: one MQTT link that reconnects by itself, and an embedded broker for demos. No torch."""
