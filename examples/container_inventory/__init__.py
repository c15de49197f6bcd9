"""Empty containers between ports: an event-driven, many-agent scenario of the real kind."""
