"""From an experiment file to a validated model, a design, and a list of runs. It starts no process and uses no
network."""

from plimsoll.plan.design.changes import Changes, Pinning, changes, pinning
from plimsoll.plan.design.estimate import Estimate
from plimsoll.plan.design.factors import Factor, Level
from plimsoll.plan.engine import engine_document
from plimsoll.plan.experiment import Design, Experiment, load_experiment, parse_experiment
from plimsoll.plan.metrics.rules import Rule, RuleError, parse_rule
from plimsoll.plan.model.cell import Cell, Config, Service, Threshold, Workload
from plimsoll.plan.plan import FORMAT, Plan, PlannedRun, make_plan
from plimsoll.plan.schema.experiment import json_schema
from plimsoll.plan.source.secret import Redactor, Secret
from plimsoll.plan.template import template

__all__ = [
    "FORMAT",
    "Cell",
    "Changes",
    "Config",
    "Design",
    "Estimate",
    "Experiment",
    "Factor",
    "Level",
    "Pinning",
    "Plan",
    "PlannedRun",
    "Redactor",
    "Rule",
    "RuleError",
    "Secret",
    "Service",
    "Threshold",
    "Workload",
    "changes",
    "engine_document",
    "json_schema",
    "load_experiment",
    "make_plan",
    "parse_experiment",
    "parse_rule",
    "pinning",
    "template",
]
