"""What the aggregator sends to devices of its own accord: offers of models, settings, answers to enrolments."""
