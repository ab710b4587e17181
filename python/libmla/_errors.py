"""What the library reports, as exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._libmla import Rejected


class Error(ValueError):
    """A value the library does not take: `code` says what kind, `field` which argument or field."""

    def __init__(self, message: str, code: str = "invalid_argument", field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.field = field


class SelectionError(Error):
    """No row fits: `code` is unknown_backend, explicit_invalid or none_valid, `rejected` has every
    row that was considered with all its reasons."""

    def __init__(
        self, message: str, code: str, field: str, rejected: list[Rejected]
    ) -> None:
        super().__init__(message, code, field)
        self.rejected = rejected
