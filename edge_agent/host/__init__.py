"""What the agent asks of its operating system: systemd's notifications, and the board's telemetry."""
