"""The error tree. Each error names the thing, the place and what to do; the CLI turns it into an exit code.

MusterError
├── InputError    exit 2: the input cannot be read (file, encoding, YAML, JSON, types)
└── Refused       exit 1: it can be read, and the answer is no
"""


class MusterError(Exception):
    """An error for the user. `hint` says what to do and may be empty."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class InputError(MusterError):
    """The input cannot be read."""


class Refused(MusterError):
    """The input can be read, and the answer is no."""

    exit_code = 1
