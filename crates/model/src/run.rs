//! The resolved run: everything the engine needs to know of one run, with nothing left to look up
//! or to default.
//!
//! The lab writes it (`plan/engine.py`), the engine checks it once ([`RunSpec::check`]) and never
//! changes it. Times are nanoseconds, rates per second, sizes bytes. Settings of a driver are the
//! driver's own types (crate `drive`, one file per driver) and stand here as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::format;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// [`format::RUN`].
    pub format: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the run's directory: "0001".
    pub run: String,
    /// The run's directory; it exists.
    pub directory: PathBuf,
    /// Seeds every random choice of the run.
    pub seed: u64,
    /// Length of the warm-up, from the start of the run.
    pub warmup_ns: u64,
    /// What ends the run.
    pub end: RunEnd,
    /// How long transactions in progress may take to end after the run's end before they are
    /// cancelled.
    pub drain_ns: u64,
    /// What of the transactions stays on disk.
    pub keep: Keep,
    /// One or more populations.
    pub workloads: Vec<Workload>,
    /// Process trees to watch on this host.
    pub watch: Vec<Watch>,
    /// Cores that the testers are bound to; empty: not bound, one lane per core that the process
    /// may use.
    pub tester_cpus: Vec<u32>,
    /// Before a scheduled start, spin for this long instead of sleeping (0: never). Costs a core,
    /// gains microseconds.
    pub spin_ns: u64,
    /// Rules that stop the run.
    pub ceiling: Vec<Ceiling>,
}

/// What ends a run: whatever comes first. At least one is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// Warm-up and measured window together.
    pub duration_ns: Option<u64>,
    /// Every tester has completed so many transactions. Closed loads only.
    pub each_tester: Option<u64>,
    /// So many transactions were started over all testers.
    pub transactions: Option<u64>,
}

/// What of the transactions stays on disk after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Every transaction.
    All,
    /// The one-second histograms only.
    Summaries,
}

/// A process tree to watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Name of the service.
    pub name: String,
    /// Root of its process tree.
    pub pid: u32,
    /// Cores that the service is bound to; empty: all.
    pub cpus: Vec<u32>,
}

/// One population of testers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name; "main" in the short form.
    pub name: String,
    /// null, tcp, http, sql, frontier, exec.
    pub driver: String,
    /// The driver's settings that hold for all operations.
    pub settings: serde_json::Value,
    /// Where requests go; at least one. The URL's scheme is the driver's.
    pub endpoints: Vec<Endpoint>,
    /// When an endpoint is chosen.
    pub choose: Choose,
    /// How one is chosen.
    pub order: Order,
    /// Longest time from start to end of a transaction.
    pub timeout_ns: u64,
    /// What a tester does after a failure.
    pub on_error: OnError,
    /// What is asked, at least one.
    pub operations: Vec<Operation>,
    /// Values for `{name}` in the texts of operations.
    pub values: BTreeMap<String, Generator>,
    /// When it is asked.
    pub load: LoadSpec,
    /// Names of the agents that carry it; empty: all.
    #[serde(default)]
    pub agents: Vec<String>,
}

/// One address of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Name in the results.
    pub name: String,
    /// `http://host:port/base`, `tcp://host:port`, `sqlite:/path`, `null:`, `exec:`.
    pub url: String,
}

/// When a tester chooses its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// Anew for every transaction.
    PerRequest,
    /// Once.
    PerTester,
}

/// In which order items of a list are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In turn: by tester number, or by transaction number.
    RoundRobin,
    /// Seeded, uniform.
    Random,
}

/// What a tester does after a failed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OnError {
    /// Goes on as if it had succeeded.
    Continue,
    /// Waits `first_ns`, doubled at each further failure in a row up to `max_ns`.
    Backoff {
        /// First wait.
        first_ns: u64,
        /// Longest wait.
        max_ns: u64,
        /// After which failures.
        #[serde(default)]
        when: BackoffWhen,
    },
    /// Is taken out after so many failures in a row; an event says so.
    StopTester {
        /// At least 1.
        after: u32,
    },
}

/// Which failures are followed by a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackoffWhen {
    /// All of them.
    #[default]
    Failed,
    /// Those without a connection, and only of testers whose starts are not planned ahead: open
    /// arrivals and slots in time stay as scheduled.
    Refused,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Name in the results.
    pub name: String,
    /// Its share is `weight` / sum of the weights; greater than 0, or 0 where `first` is not.
    pub weight: f64,
    /// Each tester begins with so many of these, in the order of the list, before any is chosen by
    /// its weight.
    #[serde(default)]
    pub first: u64,
    /// The driver's settings for it.
    pub request: serde_json::Value,
}

/// Where the values of a `{name}` come from. Draws are seeded per tester.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Generator {
    /// Whole numbers, both ends included.
    Uniform {
        /// Least.
        from: i64,
        /// Greatest.
        to: i64,
    },
    /// Ranks 1 to `n`, P(k) proportional to k^-s.
    Zipf {
        /// Greatest rank.
        n: u64,
        /// Exponent, at least 0.
        s: f64,
    },
    /// Texts of a list (a file's lines are read by the lab).
    List {
        /// At least one.
        items: Vec<String>,
        /// In turn over all transactions of the tester, or drawn.
        order: Order,
    },
    /// Texts of a list, each drawn with a probability proportional to its weight.
    Weighted {
        /// At least one.
        items: Vec<String>,
        /// One for each, 0 or greater; not all of them 0.
        weights: Vec<f64>,
    },
    /// Texts in the order of a recording. Transaction k of the workload takes `items[order[k]]`,
    /// and the first again after the last: in an open load k is the number of the arrival, in a
    /// closed one the testers take turns.
    Recorded {
        /// At least one.
        items: Vec<String>,
        /// Positions in `items`; at least one.
        order: Vec<u32>,
    },
}

/// When requests start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoadSpec {
    /// Each tester starts its next transaction a think time after the last has ended.
    Closed {
        /// Number of testers.
        testers: u32,
        /// Think time.
        think: Dist,
    },
    /// Each tester has a slot every `every_ns`; testers are spread evenly over the first interval.
    Every {
        /// Number of testers.
        testers: u32,
        /// Distance of the slots.
        every_ns: u64,
        /// What happens to slots that pass during a transaction.
        late: Late,
    },
    /// Starts by an arrival law, whatever the target does.
    Open {
        /// Arrivals per second.
        rate: f64,
        /// Their law.
        arrivals: Arrivals,
        /// Number of slots: most transactions in progress.
        in_flight: u32,
        /// What happens to an arrival that finds no free slot.
        when_full: WhenFull,
    },
    /// Closed testers that join one after the other.
    Ramp {
        /// Number of testers.
        testers: u32,
        /// Tester i joins at i times this.
        every_ns: u64,
        /// How long each stays; none: to the end.
        life_ns: Option<u64>,
        /// Think time.
        think: Dist,
    },
    /// Parts one after the other, each closed or open.
    Stages {
        /// At least one.
        stages: Vec<StageSpec>,
        /// Think time of the closed ones.
        think: Dist,
        /// Law of the open ones.
        arrivals: Arrivals,
        /// Slots of the open ones.
        in_flight: u32,
        /// Likewise.
        when_full: WhenFull,
    },
    /// Starts at the times of a recording, whatever the target does.
    Recorded {
        /// Since the start of the run, in order; at least one.
        at_ns: Vec<u64>,
        /// Number of slots: most transactions in progress.
        in_flight: u32,
        /// What happens to an arrival that finds no free slot.
        when_full: WhenFull,
    },
}

/// One part of a staged load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Name in the results.
    pub name: String,
    /// Its length.
    pub for_ns: u64,
    /// Closed: so many testers. Exactly one of `testers` and `rate` is given.
    pub testers: Option<u32>,
    /// Open: arrivals per second at its start and at its end, linear in between.
    pub rate: Option<(f64, f64)>,
}

/// What happens to slots of `every` that pass during a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// They are counted as missed.
    Skip,
    /// They are made up for; response time counts from the slot.
    CatchUp,
}

/// Arrival law of an open load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Equal distances.
    Even,
    /// Exponential distances.
    Poisson,
}

/// What happens to an arrival that finds no free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// It starts late; its response time counts from its schedule.
    Wait,
    /// It is not started, and counted.
    Drop,
}

/// A distribution of durations in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Dist {
    /// Always the same.
    Fixed {
        /// The duration.
        ns: u64,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean_ns: f64,
    },
    /// Uniform.
    Uniform {
        /// Least.
        from_ns: u64,
        /// Greatest.
        to_ns: u64,
    },
}

impl Dist {
    /// No time at all.
    pub const ZERO: Self = Self::Fixed { ns: 0 };
}

/// A rule that stops the run when it has held for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// What is read, over all agents, second by second.
    pub reading: Reading,
    /// The rule holds when the reading is above this (seconds, fraction, or per second).
    pub above: f64,
    /// Number of seconds in a row.
    pub for_seconds: u32,
    /// The rule as the user wrote it.
    pub text: String,
}

/// What a ceiling reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Failed / ended, a fraction.
    ErrorRate,
    /// Seconds.
    ResponseP50,
    /// Seconds.
    ResponseP95,
    /// Seconds.
    ResponseP99,
    /// Successful transactions per second.
    Throughput,
}

/// Why a run document is refused.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Written by another version.
    #[error(
        "the run document is \"{found}\", this engine reads \"{own}\": install the lab and the engine of one version"
    )]
    Version {
        /// What stands in the document.
        found: String,
        /// What we read.
        own: &'static str,
    },
    /// Something that cannot be carried out.
    #[error("{at}: {what}")]
    Wrong {
        /// Path of the key in the document.
        at: String,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl RunSpec {
    /// Checks what types cannot say.
    ///
    /// # Errors
    /// [`SpecError::Version`] for another format, [`SpecError::Wrong`] for the first thing that
    /// cannot be carried out.
    pub fn check(&self) -> Result<(), SpecError> {
        if !format::readable(format::RUN, &self.format) {
            return Err(SpecError::Version {
                found: self.format.clone(),
                own: format::RUN,
            });
        }
        let wrong = |at: &str, what| {
            Err(SpecError::Wrong {
                at: at.to_owned(),
                what,
            })
        };
        if self.end == RunEnd::default() {
            return wrong(
                "end",
                "nothing ends this run: give duration_ns, each_tester or transactions",
            );
        }
        if self
            .end
            .duration_ns
            .is_some_and(|duration| duration <= self.warmup_ns)
        {
            return wrong("end.duration_ns", "the warm-up takes the whole run");
        }
        if self.workloads.is_empty() {
            return wrong("workloads", "there is none");
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            workload
                .check()
                .or_else(|(at, what)| wrong(&format!("workloads.{index}.{at}"), what))?;
        }
        Ok(())
    }
}

impl Workload {
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if self.endpoints.is_empty() {
            return Err(("endpoints", "there is none"));
        }
        if self.timeout_ns == 0 {
            return Err(("timeout_ns", "a transaction needs some time"));
        }
        if self.operations.is_empty() {
            return Err(("operations", "there is none"));
        }
        if self.operations.iter().any(|operation| {
            let none = operation.weight == 0.0 && operation.first > 0;
            !(none || operation.weight > 0.0 && operation.weight.is_finite())
        }) {
            return Err(("operations", "a weight must be greater than 0"));
        }
        if self.operations.iter().all(|operation| operation.weight == 0.0) {
            return Err(("operations", "one of the weights must be greater than 0"));
        }
        for generator in self.values.values() {
            match generator {
                Generator::Uniform { from, to } if from > to => return Err(("values", "from is above to")),
                Generator::Zipf { n, s } if *n == 0 || !(*s >= 0.0 && s.is_finite()) => {
                    return Err(("values", "zipf needs n of at least 1 and s of at least 0"));
                }
                Generator::List { items, .. } if items.is_empty() => {
                    return Err(("values", "the list is empty"));
                }
                Generator::Weighted { items, weights } => {
                    let sum: f64 = weights.iter().sum();
                    let negative = weights.iter().any(|weight| *weight < 0.0);
                    if items.len() != weights.len() || negative || !(sum > 0.0 && sum.is_finite()) {
                        return Err((
                            "values",
                            "each text needs a weight of at least 0, one of them above 0",
                        ));
                    }
                }
                Generator::Recorded { items, order }
                    if order.is_empty() || order.iter().any(|&at| at as usize >= items.len()) =>
                {
                    return Err(("values", "a recording needs an order, of positions in its list"));
                }
                _ => {}
            }
        }
        self.load.check().map_err(|what| ("load", what))
    }
}

impl LoadSpec {
    fn check(&self) -> Result<(), &'static str> {
        let rate_ok = |rate: f64| rate >= 0.0 && rate.is_finite();
        match self {
            Self::Closed { testers: 0, .. }
            | Self::Every { testers: 0, .. }
            | Self::Ramp { testers: 0, .. } => Err("testers must be at least 1"),
            Self::Every { every_ns: 0, .. } => Err("every_ns must be at least 1"),
            Self::Open { rate, in_flight, .. } if !rate_ok(*rate) || *rate == 0.0 || *in_flight == 0 => {
                Err("an open load needs a rate and at least one slot")
            }
            Self::Recorded { at_ns, in_flight, .. }
                if at_ns.is_empty() || !at_ns.is_sorted() || *in_flight == 0 =>
            {
                Err("a recorded load needs times in order and at least one slot")
            }
            Self::Stages {
                stages, in_flight, ..
            } => {
                if stages.is_empty() {
                    return Err("stages: there is none");
                }
                if stages
                    .iter()
                    .any(|stage| stage.testers.is_some() == stage.rate.is_some())
                {
                    return Err("a stage has either testers or a rate");
                }
                if stages
                    .iter()
                    .filter_map(|stage| stage.rate)
                    .any(|(a, b)| !rate_ok(a) || !rate_ok(b))
                {
                    return Err("the rate of a stage must be a number of at least 0");
                }
                if *in_flight == 0 && stages.iter().any(|stage| stage.rate.is_some()) {
                    return Err("an open stage needs at least one slot");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
