"""What logical decoding needs of a server, and the commands that mend it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.deploy.decoding import Decoding, check_url, decoding_checks
from plimsoll.errors import BadInput

GOOD = Decoding("logical", "1GB", 10, 2, 10, 1, True, "reader", trial="")


def found(decoding: Decoding) -> dict[str, tuple[str, bool]]:
    """Fix and weight of each check that is not good."""
    return {check.what: (check.fix, check.is_fatal) for check in decoding_checks(decoding) if check.effect}


def test_a_server_that_permits_it_has_no_finding() -> None:
    assert found(GOOD) == {}
    assert [check.what for check in decoding_checks(GOOD)][-1] == "logical decoding"
    assert len(list(decoding_checks(replace(GOOD, trial=None)))) == 5


def test_each_finding_has_the_command_that_mends_it() -> None:
    bad = Decoding("replica", "-1", 2, 2, 30, 30, False, '"a $user"')
    assert found(bad) == {
        "wal_level": (
            """psql -U postgres -c "ALTER SYSTEM SET wal_level = 'logical'", then restart the server""",
            True,
        ),
        "right REPLICATION": ('psql -U postgres -c "ALTER ROLE \\"a \\$user\\" REPLICATION"', True),
        "max_replication_slots": (
            'psql -U postgres -c "ALTER SYSTEM SET max_replication_slots = 10", then restart the server',
            True,
        ),
        "max_wal_senders": (
            'psql -U postgres -c "ALTER SYSTEM SET max_wal_senders = 60", then restart the server',
            True,
        ),
        "max_slot_wal_keep_size": (
            """psql -U postgres -c "ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'" -c 'SELECT pg_reload_conf()'""",
            False,
        ),
    }
    assert found(replace(GOOD, wal_limit=None))["max_slot_wal_keep_size"] == (
        "use PostgreSQL 13 or later",
        False,
    )
    assert "contrib" in found(replace(GOOD, trial="could not access file"))["logical decoding"][0]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://a:b@x/y", "leave out the password"),
        ("postgresql:///y?user=a&password=b", "leave out the password"),
        ("mysql://a@x/y", "expected the URL of a PostgreSQL database"),
        ("postgresql://[x/y", "expected the URL of a PostgreSQL database"),
    ],
)
def test_other_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_url(url)
