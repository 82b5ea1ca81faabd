"""Interface to the operating system: systemd's notifications, and the board's telemetry."""
