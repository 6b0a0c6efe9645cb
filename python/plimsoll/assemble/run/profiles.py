"""The samples of services in all runs, for the report."""

from __future__ import annotations

from plimsoll.collect.results import Results
from plimsoll.report.flames.flames import ServiceProfile


def profiles_of(results: Results) -> list[ServiceProfile]:
    """The samples of each service with `perf: true` in each run that the report shows, or why there are none. Raises
    DamagedResults."""
    found = []
    for run in results.runs:
        if run.id in results.controls:
            continue
        for service in run.record["services"]:
            if "perf" in service:
                profile = run.profile(service["name"])
                error = str(service["perf"].get("error", "")) or ("" if profile else "perf.folded is missing")
                found.append(ServiceProfile(run.id, service["name"], profile, error))
    return found
