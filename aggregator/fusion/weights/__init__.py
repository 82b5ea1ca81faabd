"""How much each update counts in its prototype's average: by examples, by robust scores, by trust."""
