"""What the webhook reports about itself."""

from typing import Protocol


class WebhookObserver(Protocol):
    """Counts answers, and knows when the certificate expires."""

    def answered(self, path: str, result: str, seconds: float) -> None:
        """The webhook sent a response."""

    def certificate(self, expires: float) -> None:
        """The webhook serves a certificate that expires then, as a Unix time."""
