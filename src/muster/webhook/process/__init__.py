"""The process that answers the webhook, and the one that started it."""
