"""Queues with known results, as references for the tests (Jain, ch. 31; Kleinrock, Queueing Systems I, ch. 3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Queue:
    """Steady state of a queue. Times in the unit of 1 / rate."""

    utilization: float
    wait_probability: float
    response: float
    """Mean time in the system."""
    waiting: float
    in_system: float


def erlang_c(offered: float, servers: int) -> float:
    """Probability that an arrival waits in M/M/c; `offered` = arrival rate / service rate, below `servers`.

    By the recursion of Erlang B, which neither overflows nor cancels.
    """
    if not 0 <= offered < servers:
        raise ValueError(f"an offered load of {offered:g} needs more than {servers} servers")
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def mmc(arrivals: float, service: float, servers: int) -> Queue:
    """M/M/c with `arrivals` per unit time and `service` per unit time and server. Raises ValueError if unstable."""
    offered = arrivals / service
    wait = erlang_c(offered, servers)
    waiting = wait / (servers * service - arrivals)
    response = waiting + 1 / service
    return Queue(offered / servers, wait, response, waiting, arrivals * response)


def mm1(arrivals: float, service: float) -> Queue:
    """M/M/1: response 1 / (service - arrivals)."""
    return mmc(arrivals, service, 1)


def md1_response(arrivals: float, service: float) -> float:
    """Mean response time of M/D/1 (fixed service time), by Pollaczek and Khinchine."""
    load = arrivals / service
    if not 0 <= load < 1:
        raise ValueError(f"a load of {load:g} has no steady state")
    return 1 / service + load / (2 * service * (1 - load))
