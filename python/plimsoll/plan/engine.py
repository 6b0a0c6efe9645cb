"""The run document that the engine reads (crate `model`, run.rs): a resolved run with the addresses
of its services.

It is sent only to the stdin of the engine, so it contains secrets as they are. `redacted=True`
returns the form that may be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plimsoll.errors import AgentsLost, ServiceError
from plimsoll.plan.hosts.spread import Place, carriers, chosen, of_hosts, places
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.session import Session
from plimsoll.plan.plan import PlannedRun
from plimsoll.plan.resolve.cell import component_of, reading
from plimsoll.plan.services.filled import with_addresses
from plimsoll.plan.source.secret import Secret, hidden, revealed
from plimsoll.plan.source.units import NS

FORMAT: Final = "plimsoll.run/1"


def engine_document(
    run: PlannedRun,
    addresses: Mapping[str, Sequence[str]],
    directory: Path,
    experiment: str,
    *,
    tester_cpus: Sequence[int] = (),
    watch: Sequence[Mapping[str, Any]] = (),
    agents: Sequence[Place] | None = None,
    redacted: bool = False,
) -> dict[str, Any]:
    """The document of one run.

    `addresses`: URLs of each service that runs ("http://127.0.0.1:40123", "sqlite:/dir/db.sqlite");
    `directory`: the existing directory of the run; `tester_cpus`: cores from `pinning`; `watch`: {name, pid, cpus} of
    each service's process tree; `agents`: the agents that are present (None: those of the plan). Raises ServiceError if
    a target's service has no address, AgentsLost if a workload has no agent.
    """
    config = run.config
    planned_agents = places(chosen(config.hosts)) if agents is None else tuple(agents)
    run_document = {
        "format": FORMAT,
        "experiment": experiment,
        "run": run.id,
        "directory": str(directory),
        "seed": run.seed,
        "warmup_ns": config.run.warmup_ns,
        "end": {
            "duration_ns": config.run.end_ns,
            "each_tester": config.run.each_tester,
            "transactions": config.run.transactions,
        },
        "drain_ns": config.run.drain_ns,
        "keep": config.run.keep,
        "workloads": [
            {**_workload(work, addresses), **_agents_and_load(work, config, planned_agents)}
            for work in config.workloads
        ],
        "watch": [
            {"name": process["name"], "pid": process["pid"], "cpus": list(process.get("cpus", ()))}
            for process in watch
        ],
        "tester_cpus": list(tester_cpus),
        "spin_ns": config.run.spin_ns,
        "ceiling": [_ceiling(ceiling) for ceiling in config.ceiling],
    }
    document: dict[str, Any] = hidden(run_document) if redacted else revealed(run_document)
    return document


def _agents_and_load(work: model.Workload, config: model.Config, agents: Sequence[Place]) -> dict[str, Any]:
    """The agents of a workload, in the order in which testers are assigned to them, and its load on them."""
    if not config.hosts.named:
        return {}
    assigned = carriers(work, agents)
    if not assigned:
        of = f" of the site {' or '.join(work.sites)}" if work.sites else ""
        raise AgentsLost(f"no host{of} is available for the workload {work.name}")
    return {"agents": [agent.name for agent in assigned], "load": _load(of_hosts(work.load, assigned))}


def _workload(work: model.Workload, addresses: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "name": work.name,
        "driver": work.driver,
        "settings": _settings(work, addresses),
        "endpoints": [
            entry for endpoint in work.target.endpoints for entry in _endpoints(endpoint, addresses)
        ],
        "choose": work.target.choose,
        "order": work.target.order,
        "timeout_ns": work.timeout_ns,
        "on_error": _on_error(work.on_error),
        "operations": [
            {
                "name": operation.name,
                "weight": operation.weight,
                "first": operation.first,
                "request": _filled(dict(operation.request), work, addresses),
            }
            for operation in work.operations
        ],
        "values": {name: _generator(values) for name, values in work.values.items()},
        "load": _load(work.load),
        **_session(work.session),
    }


def _settings(work: model.Workload, addresses: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The settings of the driver. Proxies of the target replace the proxy of the section."""
    settings = dict(work.settings)
    if work.target.proxies and "proxies" in settings:
        settings["proxies"] = [
            _address(proxy.service, addresses)[0] if isinstance(proxy, model.Via) else proxy
            for proxy in work.target.proxies
        ]
    if "env" in settings:
        settings["env"] = _filled(settings["env"], work, addresses)
    return settings


def _filled(value: Any, work: model.Workload, addresses: Mapping[str, Sequence[str]]) -> Any:
    """The texts of programs with the addresses of services. Other drivers have targets only."""
    if work.driver != "exec":
        return value
    urls = {name: found[0] for name, found in addresses.items() if found}

    def filled(value: Any) -> Any:
        match value:
            case str():
                return with_addresses(value, urls)
            case Mapping():
                return {key: filled(item) for key, item in value.items()}
            case list() | tuple():
                return [filled(item) for item in value]
            case _:
                return value

    return filled(value)


def _address(service: str, addresses: Mapping[str, Sequence[str]]) -> list[str]:
    urls = list(addresses.get(service, ()))
    if not urls:
        raise ServiceError(f"the service {service} has no address: it was not started")
    return urls


def _endpoints(
    endpoint: model.Endpoint, addresses: Mapping[str, Sequence[str]]
) -> list[dict[str, str | Secret]]:
    if endpoint.service is None:
        return [{"name": endpoint.name, "url": endpoint.url or ""}]
    urls = _address(endpoint.service, addresses)
    if len(urls) == 1:
        return [{"name": endpoint.name, "url": urls[0]}]
    return [{"name": f"{endpoint.name}-{number}", "url": url} for number, url in enumerate(urls, 1)]


def _on_error(on_error: model.OnError) -> dict[str, Any]:
    match on_error.kind:
        case "continue":
            return {"kind": "continue"}
        case "backoff":
            return {
                "kind": "backoff",
                "first_ns": on_error.first_ns,
                "max_ns": on_error.max_ns,
                "when": on_error.when,
            }
        case "stop-tester":
            return {"kind": "stop-tester", "after": on_error.after}


def _generator(values: model.Generator) -> dict[str, Any]:
    match values.kind:
        case "uniform":
            return {"kind": "uniform", "from": values.low, "to": values.high}
        case "zipf":
            return {"kind": "zipf", "n": values.n, "s": values.s}
        case "list":
            return {"kind": "list", "items": list(values.items), "order": values.order}
        case "weighted":
            return {"kind": "weighted", "items": list(values.items), "weights": list(values.weights)}
        case "recorded":
            return {"kind": "recorded", "items": list(values.items), "order": list(values.sequence)}


def _dist(drawn: model.Distribution) -> dict[str, Any]:
    match drawn:
        case model.FixedTime():
            return {"kind": "fixed", "ns": drawn.ns}
        case model.ExponentialTime():
            return {"kind": "exponential", "mean_ns": float(drawn.mean_ns)}
        case model.UniformTime():
            return {"kind": "uniform", "from_ns": drawn.from_ns, "to_ns": drawn.to_ns}


def _session(session: Session | None) -> dict[str, Any]:
    """The key of testers with sessions; absent for others."""
    if session is None:
        return {}
    return {
        "session": {
            "start": list(session.start),
            "compute": _dist(session.compute),
            "busy": session.busy,
            "min_queries": session.min_queries,
            "max_queries": session.max_queries,
        }
    }


def _load(load: model.Load) -> dict[str, Any]:
    match load:
        case model.ClosedLoad():
            return {"kind": "closed", "testers": load.testers, "think": _dist(load.think)}
        case model.PeriodicLoad():
            return {"kind": "every", "testers": load.testers, "every_ns": load.every_ns, "late": load.late}
        case model.OpenLoad():
            return {
                "kind": "open",
                "rate": load.rate,
                "arrivals": load.arrivals,
                "in_flight": load.in_flight,
                "when_full": load.when_full,
            }
        case model.RampLoad():
            return {
                "kind": "ramp",
                "testers": load.testers,
                "every_ns": load.every_ns,
                "life_ns": load.life_ns,
                "think": _dist(load.think),
                **_slots(load.slots),
            }
        case model.RecordedLoad():
            return {
                "kind": "recorded",
                "at_ns": list(load.at_ns),
                "in_flight": load.in_flight,
                "when_full": load.when_full,
            }
        case model.StagedLoad():
            return {
                "kind": "stages",
                "stages": [
                    {
                        "name": stage.name,
                        "for_ns": stage.for_ns,
                        "testers": stage.testers,
                        "rate": None if stage.rate is None else list(stage.rate),
                    }
                    for stage in load.stages
                ],
                "think": _dist(load.think),
                "arrivals": load.arrivals,
                "in_flight": load.in_flight,
                "when_full": load.when_full,
                **_slots(load.slots),
                **({} if load.life_ns is None else {"life_ns": load.life_ns}),
            }


def _slots(slots: model.SlotRule | None) -> dict[str, Any]:
    """The key of testers with slots; absent for others."""
    return {} if slots is None else {"slots": {"every_ns": slots.every_ns, "late": slots.late}}


def _ceiling(ceiling: model.Ceiling) -> dict[str, Any]:
    component = component_of(ceiling.metric)
    return {
        "reading": reading(ceiling.metric, ceiling.rule),
        **({} if component is None else {"component": component}),
        "above": ceiling.rule.value,
        "for_seconds": max(1, -(-ceiling.for_ns // NS["s"])),
        "text": f"{ceiling.metric}: {ceiling.text}",
    }
