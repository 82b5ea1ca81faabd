"""What systemd takes away from our services: the same lines in the unit of agent, aggregator and broker.

Not restricted: memory that is written and then executed (oneDNN, inside torch, compiles its kernels); the devices of
machines with an accelerator, which each unit grants by itself; `/proc/cpuinfo`, which torch reads.
"""

from __future__ import annotations

__all__ = ["HARDENING"]

HARDENING = """\
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
PrivateIPC=yes
RemoveIPC=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
LockPersonality=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
"""
