"""The HTTP API and the web explorer of one or two runs."""
