"""`plimsoll doctor --database` asks a real PostgreSQL, before and after its commands were executed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from plimsoll.deploy.programs import postgres_directory
from tests.conftest import Lab
from tests.real.guarded_databases import database


def test_the_commands_of_the_findings_mend_them(lab: Lab) -> None:
    with database("postgres") as server:
        url = server.url("open")
        found = {
            each["what"]: each for each in lab.run("doctor", "--json", "--database", url).json["findings"]
        }
        assert found["wal_level"]["verdict"] == found["right REPLICATION"]["verdict"] == "bad"
        assert found["max_slot_wal_keep_size"]["verdict"] == "mind"
        assert found["max_replication_slots"]["verdict"] == "good"
        assert "logical decoding" not in found, "nothing is created on a server that does not permit it"
        client = f"{Path(postgres_directory('x', 'auto')) / 'psql'} -h {server.directory} -p {server.port} -q"
        for name in ("wal_level", "right REPLICATION", "max_slot_wal_keep_size"):
            command = found[name]["mend"].partition(", then")[0]
            command = command.replace("psql -U postgres", f"{client} -U admin -d postgres")
            subprocess.run(["sh", "-c", command], check=True)
        done = lab.run("doctor", "--json", "--database", url)
        found = {each["what"]: each for each in done.json["findings"]}
        assert found["wal_level"]["verdict"] == "bad", "the server was not restarted"
        assert found["right REPLICATION"]["verdict"] == found["max_slot_wal_keep_size"]["verdict"] == "good"
        assert done.code == 1
    gone = lab.run("doctor", "--database", url)
    assert (
        gone.code != 0
        and "--database: the server cannot be asked: " in gone.err
        and "Traceback" not in gone.err
    )
    assert lab.run("doctor", "--database", "postgresql://a:b@x/y").code == 2


def test_a_server_that_permits_it_keeps_no_slot(lab: Lab) -> None:
    with database("postgres", settings=["wal_level=logical", "max_slot_wal_keep_size=64MB"]) as server:
        url = f"postgresql:///events?host={server.directory}&port={server.port}&user=admin"
        findings = lab.run("doctor", "--json", "--database", url).json["findings"]
        found = {each["what"]: (each["verdict"], each["value"]) for each in findings}
        assert found["logical decoding"] == ("good", "a replication slot was created and dropped")
        assert found["max_slot_wal_keep_size"] == ("good", "64MB")
        again = lab.run("doctor", "--json", "--database", url).json["findings"]
        assert {each["what"]: each["value"] for each in again}["max_replication_slots"] == "0 of 10 in use"
