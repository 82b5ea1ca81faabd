"""Messages that the aggregator publishes to devices: jobs and offers, settings, answers to enrolments."""
