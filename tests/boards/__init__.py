"""Flashed cards that boot: Debian on emulated ARM boards (QEMU, TCG), joined to a fleet on this machine.

`make test-boards` runs them. Roots are built once (`roots.py`), laid out as cards the way Raspberry Pi OS has them
(`cards.py`), flashed by `edgestill flash`, and booted (`emulated.py`). Tests wait for events: a message at the broker,
a line on the serial console, the end of a command in the board's shell. The limits only end a test that hangs.
"""
