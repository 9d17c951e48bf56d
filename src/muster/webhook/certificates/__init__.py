"""The certificates of the webhook: made or read, checked, rotated."""
