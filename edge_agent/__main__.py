"""`python -m edge_agent agent.toml [section.key=value ...]`: the agent without the command line.

`edgestill agent run` executes this process: the libraries for parsing a command line take 20 MB, which an agent that
waits for weeks does not need.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from core.errors import EdgestillError
from core.logs import setup_logging
from edge_agent.config import enrolled, read_agent_config
from edge_agent.host.signals import stop_on_signals
from edge_agent.service import Service

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the agent until a signal; errors are one line and an exit code."""
    try:
        config = read_agent_config(argv[0], settings=argv[1:])
        setup_logging(config.log.format, config.log.level, fleet=config.fleet, device=config.device)
        if config.enrol is not None and not enrolled(config.enrol):
            from edge_agent.enrolment import Enrolment  # X.509, needed only once

            enrolment = Enrolment(config, config.enrol)
            stop_on_signals(enrolment.stop)
            if not enrolment.run():
                return 0
        service = Service(config)
        stop_on_signals(service.stop)
        return service.run()
    except EdgestillError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        return _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"edgestill: {' '.join(text.split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
