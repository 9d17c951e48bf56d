"""What is valid: pure functions that yield every problem. Webhook, CLI and controllers ask `check`."""
