"""The part of a cluster's configuration that says where a secret is found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import model_validator

from ledger.config.values import Frozen
from ledger.errors import Trouble, UsageError


class SecretReference(Frozen):
    """Where a secret is found when a client is built: an environment variable or a file."""

    env: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("a secret reference has either env or file")
        return self

    def resolve(self, environ: Mapping[str, str]) -> str:
        """The secret itself; the message of a failure names the place, never the value."""
        if self.env is not None:
            return self._from_environment(self.env, environ)
        return self._from_file(Path(str(self.file)))

    def _from_environment(self, variable: str, environ: Mapping[str, str]) -> str:
        if not environ.get(variable):
            raise UsageError(
                f"a secret is read from {variable}, which is not set; no client was built",
                trouble=Trouble.SECRET,
            )
        return environ[variable]

    def _from_file(self, path: Path) -> str:
        try:
            secret = path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UsageError(
                f"a secret is read from {path}: {reason}; no client was built", trouble=Trouble.SECRET
            ) from None
        if not secret:
            raise UsageError(
                f"a secret is read from {path}, which is empty; no client was built", trouble=Trouble.SECRET
            )
        return secret


PropertyValue = str | SecretReference
