"""The training process: `python -m edge_agent.child`, and what starts and watches it.

`supervisor` and `request` are the agent's side and import no torch; the rest runs in the child: what it starts from,
the round's work in full and in light mode, the update that goes up, the model for the board's application.
"""
