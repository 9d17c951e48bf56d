"""What the operator failed to do, in the status of Grove's kinds; the next status without a failure leaves it out.

Rule: a failure that comes again keeps its time: a status that changes at every attempt would ask for the next one.
"""

from datetime import datetime

from muster.api.fields import items, text
from muster.workloads.conditions import timestamp
from muster.workloads.types import Raw


def with_last_error(owner: Raw, status: Raw, reason: str, message: str, now: datetime) -> Raw:
    """The status with a failure."""
    for error in items(owner, "status.lastErrors"):
        if (text(error, "code"), text(error, "description")) == (reason, message):
            return {**status, "lastErrors": [error]}
    return {**status, "lastErrors": [{"code": reason, "description": message, "observedAt": timestamp(now)}]}
