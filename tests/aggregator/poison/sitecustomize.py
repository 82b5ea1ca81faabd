"""Put on PYTHONPATH, it lets the worker fare badly with the update of one device: EDGESTILL_TEST_POISON=DEVICE:HOW.

Intake refuses what would really do that, as far as anybody knows; this stands for what nobody knows yet.
"""

import os
import sys

poison = os.environ.get("EDGESTILL_TEST_POISON", "")
if poison and "aggregator.worker" in sys.orig_argv:
    import signal
    import time
    from dataclasses import replace

    import aggregator.worker.stored_updates as stored

    victim, how = poison.split(":")
    genuine = stored.received

    def act():
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "hang":
            time.sleep(600)
        raise ValueError("an update that nobody can read")

    def received(row, *args, **kwargs):
        made = genuine(row, *args, **kwargs)
        return replace(made, state=act) if row.device == victim or victim == "all" else made

    stored.received = received
