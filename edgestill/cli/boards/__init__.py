"""Commands of boards: provision, kits, flash, push, keys, broker, doctor."""
