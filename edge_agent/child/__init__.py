"""The training process, `python -m edge_agent.child`, and its supervisor.

`supervisor` and `request` are the agent's side and import no torch; the rest runs in the child: its inputs, the round's
work in full and in light mode, the update, the model for the board's application.
"""
