"""The page of reasons names every reason that the code gives, and no other."""

from checks.reference.reasons import documented
from checks.reference.reasons_in_code import reasons_in_code


def test_every_reason_of_the_code_has_advice_and_no_other() -> None:
    """Whoever adds a refusal, a condition or an event says in checks/reference/remedies.yaml what to do about it."""
    assert documented() == reasons_in_code()


def test_reasons_are_read_from_every_part_of_the_code() -> None:
    """One that each way of giving a reason leads to: a type, a table, a constant, a name, a local variable."""
    assert {"NoRoom", "Preempted", "SeveralOwners", "UpdateStarted", "FailedDelete", "InTree"} <= reasons_in_code()
