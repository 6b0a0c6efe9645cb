"""Connections of the administrator to a PostgreSQL server that Plimsoll started."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

ADMIN: Final = "postgres"


@dataclass(frozen=True, slots=True)
class PostgresAdmin:
    """A server. `password`: of the administrator, also on its streaming replicas; `synchronous`: the names of the
    replicas for which its commits wait."""

    address: str
    port: int
    password: str
    synchronous: list[str] = field(default_factory=list)

    def connect(self, database: str = ADMIN) -> psycopg.Connection[Any]:
        """A connection that commits each statement. Raises psycopg.Error."""
        import psycopg

        return psycopg.connect(
            host=self.address,
            port=self.port,
            user=ADMIN,
            password=self.password,
            dbname=database,
            sslmode="disable",
            connect_timeout=5,
            autocommit=True,
            application_name="plimsoll",
        )


def single_value(connection: psycopg.Connection[Any], query: Any, *values: Any) -> str:
    """The first column of the first row as text; empty without a row."""
    row = connection.execute(query, values or None).fetchone()
    return str(row[0]) if row else ""
