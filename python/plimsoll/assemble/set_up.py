"""The set-up of an experiment for its report."""

from __future__ import annotations

from plimsoll.collect.results import Results
from plimsoll.plan.topology import Topology
from plimsoll.report.setup.setup import ServiceSetUp, SetUp, StoredFile


def topology_of(results: Results) -> Topology | None:
    """The topology of the experiment; None if the results are of a version that did not store it."""
    return Topology.from_json(results.plan["topology"]) if "topology" in results.plan else None


def setup_of(results: Results) -> SetUp:
    """The set-up of the experiment. A service with the same configuration in several runs is listed once."""
    own = str(results.environment.get("versions", {}).get("plimsoll", ""))
    services: dict[tuple[str, str, str, str], None] = {}
    for run in results.runs:
        for service in run.record["services"]:
            config = run.path / "services" / service["name"] / "config"
            text = config.read_text(encoding="utf-8", errors="replace") if config.exists() else ""
            services[service["name"], service["kind"], text, service.get("version") or own] = None
    environment = dict(results.environment)
    command_line = " ".join(environment.pop("command_line", []))
    return SetUp(
        experiment_text=results.experiment_text,
        effective_text=results.effective_text,
        environment=environment,
        services=tuple(ServiceSetUp(*service) for service in services),
        files=tuple(
            StoredFile(str(path.relative_to(results.path)), path.stat().st_size)
            for path in sorted(results.path.rglob("*"))
            if path.is_file()
        ),
        seeds={"design": results.plan["seed"]},
        command_line=command_line,
        topology=topology_of(results),
    )
