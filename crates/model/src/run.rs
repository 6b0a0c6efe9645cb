//! The resolved run: everything that the engine needs for one run. It has no defaults, and nothing
//! is left to look up.
//!
//! The lab writes it (`plan/engine.py`), the engine checks it once ([`RunSpec::check`]) and never
//! changes it. Times are nanoseconds, rates per second, sizes bytes. The settings of a driver are
//! JSON here; their types are the driver's own (crate `drive`, one folder per driver).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::format;
use crate::generator::Generator;
use crate::tester_session::SessionSpec;

/// The resolved description of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// [`format::RUN`].
    pub format: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the run's directory, such as "0001".
    pub run: String,
    /// Path of the run's directory, which exists.
    pub directory: PathBuf,
    /// Seed of every random choice of the run.
    pub seed: u64,
    /// Length of the warm-up, from the start of the run, ns.
    pub warmup_ns: u64,
    /// Conditions that end the run.
    pub end: RunEnd,
    /// How long transactions in progress may continue after the end of the run before they are
    /// cancelled, ns.
    pub drain_ns: u64,
    /// Which transactions remain on disk after the run.
    pub keep: Keep,
    /// The workloads of the run, at least one.
    pub workloads: Vec<Workload>,
    /// Process trees to monitor on this host.
    pub watch: Vec<Watch>,
    /// Cores to which the testers are bound. Empty: not bound, one lane per core that the process
    /// may use.
    pub tester_cpus: Vec<u32>,
    /// How long a lane spins instead of sleeping before a scheduled start, ns (0: never). Spinning
    /// uses a core and makes starts some microseconds more punctual.
    pub spin_ns: u64,
    /// Rules that stop the run.
    pub ceiling: Vec<Ceiling>,
}

/// Conditions that end a run: the first that is satisfied. At least one is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// Length of warm-up and measured window together, ns.
    pub duration_ns: Option<u64>,
    /// Number of transactions that every tester completes. Closed loads only.
    pub each_tester: Option<u64>,
    /// Number of transactions that all testers together start.
    pub transactions: Option<u64>,
}

/// Which transactions remain on disk after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Every transaction.
    All,
    /// None: only the histograms of each second remain.
    Summaries,
}

/// A process tree of a service to monitor on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Name of the service.
    pub name: String,
    /// Process id of the root of its process tree.
    pub pid: u32,
    /// Cores to which the service is bound. Empty: all.
    pub cpus: Vec<u32>,
}

/// One workload: its testers, requests and load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name of the workload; "main" in the short form of the experiment file.
    pub name: String,
    /// Name of the driver, such as `http`.
    pub driver: String,
    /// Settings of the driver for all operations.
    pub settings: serde_json::Value,
    /// Endpoints of the requests, at least one. The driver defines the schemes of their URLs.
    pub endpoints: Vec<Endpoint>,
    /// When an endpoint is chosen.
    pub choose: Choose,
    /// In which order endpoints are chosen.
    pub order: Order,
    /// Maximum time from start to end of a transaction, ns; at least 1.
    pub timeout_ns: u64,
    /// What a tester does after a failure.
    pub on_error: OnError,
    /// Kinds of requests, at least one.
    pub operations: Vec<Operation>,
    /// Sources of the values for `{name}` in the texts of operations, by name.
    pub values: BTreeMap<String, Generator>,
    /// When requests start.
    pub load: LoadSpec,
    /// Sessions of the testers; none: the testers carry out single transactions.
    #[serde(default)]
    pub session: Option<SessionSpec>,
    /// Names of the agents that run this workload. Empty: all.
    #[serde(default)]
    pub agents: Vec<String>,
}

/// An endpoint of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Name in the results.
    pub name: String,
    /// URL, such as `http://host:port/base`, `tcp://host:port`, `sqlite:/path`, `null:` or `exec:`.
    pub url: String,
}

/// When a tester chooses its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// For every transaction.
    PerRequest,
    /// Once, before its first transaction.
    PerTester,
}

/// In which order the items of a list are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In turn, by the number of the tester or of the transaction.
    RoundRobin,
    /// Drawn with equal probabilities, from the seed of the run.
    Random,
}

/// What a tester does after a failed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OnError {
    /// The tester continues as if the transaction had succeeded.
    Continue,
    /// The tester waits `first_ns`, doubled at each further failure in a row up to `max_ns`.
    Backoff {
        /// First wait, ns.
        first_ns: u64,
        /// Maximum wait, ns.
        max_ns: u64,
        /// After which failures the tester waits.
        #[serde(default)]
        when: BackoffWhen,
    },
    /// The tester stops after a number of failures in a row. An event reports it.
    StopTester {
        /// Number of failures in a row, at least 1.
        after: u32,
    },
}

/// Which failures are followed by a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackoffWhen {
    /// All failures.
    #[default]
    Failed,
    /// Failures without a connection, and only of testers whose starts are not planned ahead:
    /// arrivals of an open load and slots of `every` remain as scheduled.
    Refused,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Name in the results.
    pub name: String,
    /// Share of the operation: `weight` / sum of the weights. Greater than 0, or 0 if `first` is
    /// greater than 0.
    pub weight: f64,
    /// Number of these operations with which each tester, or each session, begins, in the order of
    /// the list, before operations are chosen by their weights.
    #[serde(default)]
    pub first: u64,
    /// Settings of the driver for this operation.
    pub request: serde_json::Value,
}

/// When requests start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoadSpec {
    /// Closed load: each tester starts its next transaction a think time after the previous one has
    /// ended.
    Closed {
        /// Number of testers, at least 1.
        testers: u32,
        /// Think time.
        think: Dist,
    },
    /// Closed load in which each tester has a slot every `every_ns`. The first slots of the testers
    /// are spread evenly over the first interval.
    Every {
        /// Number of testers, at least 1.
        testers: u32,
        /// Interval between the slots of a tester, ns; at least 1.
        every_ns: u64,
        /// What happens to slots that pass during a transaction.
        late: Late,
    },
    /// Open load with a constant rate: transactions start independent of the target.
    Open {
        /// Arrivals per second, greater than 0.
        rate: f64,
        /// Distribution of the intervals between arrivals.
        arrivals: Arrivals,
        /// Number of slots: maximum number of transactions in progress, at least 1.
        in_flight: u32,
        /// What happens to an arrival without a free slot.
        when_full: WhenFull,
    },
    /// Closed load whose testers join one after the other.
    Ramp {
        /// Number of testers, at least 1.
        testers: u32,
        /// Interval between joins, ns: tester i joins at i times this.
        every_ns: u64,
        /// How long each tester is active, ns; none: to the end of the run.
        life_ns: Option<u64>,
        /// Think time.
        think: Dist,
        /// Slots of the testers; none: they start by the think time.
        #[serde(default)]
        slots: Option<SlotSpec>,
    },
    /// Stages one after the other, each closed or open.
    Stages {
        /// Stages in order, at least one.
        stages: Vec<StageSpec>,
        /// Think time of the closed stages.
        think: Dist,
        /// Distribution of the intervals between arrivals of the open stages.
        arrivals: Arrivals,
        /// Number of slots of the open stages, at least 1 if there is an open stage.
        in_flight: u32,
        /// What happens in an open stage to an arrival without a free slot.
        when_full: WhenFull,
        /// Slots of the testers of the closed stages; none: they start by the think time.
        #[serde(default)]
        slots: Option<SlotSpec>,
        /// How long each tester is active, ns, from the start of its first stage; none: to its last
        /// stage.
        #[serde(default)]
        life_ns: Option<u64>,
    },
    /// Open load with the times of a recording: transactions start independent of the target.
    Recorded {
        /// Planned starts in order, ns since the start of the run; at least one.
        at_ns: Vec<u64>,
        /// Number of slots: maximum number of transactions in progress, at least 1.
        in_flight: u32,
        /// What happens to an arrival without a free slot.
        when_full: WhenFull,
    },
}

/// The slots of each tester of a ramp or of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotSpec {
    /// Interval between the slots of a tester, ns; at least 1.
    pub every_ns: u64,
    /// What happens to slots that pass during a transaction.
    pub late: Late,
}

/// One stage of a load. Exactly one of `testers` and `rate` is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Name in the results.
    pub name: String,
    /// Length of the stage, ns.
    pub for_ns: u64,
    /// Closed stage: number of testers.
    pub testers: Option<u32>,
    /// Open stage: arrivals per second at its start and at its end, linear in between.
    pub rate: Option<(f64, f64)>,
}

/// What happens to slots of `every` that pass during a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// The slots are not used and are counted as missed.
    Skip,
    /// Their transactions start late. The response time counts from the slot.
    CatchUp,
}

/// Distribution of the intervals between the arrivals of an open load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Equal intervals.
    Even,
    /// Exponentially distributed intervals.
    Poisson,
}

/// What happens to an arrival without a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Its transaction starts late. The response time counts from the scheduled start.
    Wait,
    /// Its transaction does not start; the arrival is counted as dropped.
    Drop,
}

/// A distribution of durations in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Dist {
    /// Always the same duration.
    Fixed {
        /// The duration, ns.
        ns: u64,
    },
    /// Exponentially distributed durations.
    Exponential {
        /// Mean, ns.
        mean_ns: f64,
    },
    /// Uniformly distributed durations, both ends included.
    Uniform {
        /// Minimum, ns.
        from_ns: u64,
        /// Maximum, ns.
        to_ns: u64,
    },
}

impl Dist {
    /// Always 0 ns.
    pub const ZERO: Self = Self::Fixed { ns: 0 };
}

/// A rule that stops the run when a reading was above a limit for a number of seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// The value that is read every second, over all agents.
    pub reading: Reading,
    /// Name of the service whose memory is read; none for other readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Limit, in the unit of the reading.
    pub above: f64,
    /// Number of seconds in a row in which the reading must be above the limit.
    pub for_seconds: u32,
    /// The rule as the user wrote it.
    pub text: String,
}

/// The value that a [`Ceiling`] compares with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Failed transactions / ended transactions, 0 to 1.
    ErrorRate,
    /// Median of the response time, s.
    ResponseP50,
    /// 95th percentile of the response time, s.
    ResponseP95,
    /// 99th percentile of the response time, s.
    ResponseP99,
    /// Successful transactions per second.
    Throughput,
    /// Resident set sizes of the processes of a service, bytes. The monitor of its host reads it.
    Memory,
    /// Memory of a service in which each page counts once, bytes. The monitor of its host reads it.
    OwnMemory,
}

/// Why the engine refuses a run document.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The format of the document is not the one that this engine reads.
    #[error(
        "run document: the format is \"{found}\", but this engine reads \"{own}\": install lab and engine \
         of the same version"
    )]
    Version {
        /// Format of the document.
        found: String,
        /// Format that this engine reads.
        own: &'static str,
    },
    /// A value with which the run cannot be carried out.
    #[error("run document: {at}: {what}")]
    Wrong {
        /// Path of the key in the document.
        at: String,
        /// What is wrong with the value, and which values are allowed.
        what: String,
    },
}

impl RunSpec {
    /// Checks the rules that the types do not express.
    ///
    /// # Errors
    /// [`SpecError::Version`] if the format is not [`format::RUN`], [`SpecError::Wrong`] for the
    /// first value with which the run cannot be carried out.
    pub fn check(&self) -> Result<(), SpecError> {
        if !format::readable(format::RUN, &self.format) {
            return Err(SpecError::Version {
                found: self.format.clone(),
                own: format::RUN,
            });
        }
        let wrong = |at: &str, what: String| {
            Err(SpecError::Wrong {
                at: at.to_owned(),
                what,
            })
        };
        if self.end == RunEnd::default() {
            return wrong(
                "end",
                "expected at least one of duration_ns, each_tester and transactions".to_owned(),
            );
        }
        if let Some(duration) = self.end.duration_ns
            && duration <= self.warmup_ns
        {
            let warmup = self.warmup_ns;
            return wrong(
                "end.duration_ns",
                format!("expected more than warmup_ns, which is {warmup}, got {duration}"),
            );
        }
        if self.workloads.is_empty() {
            return wrong("workloads", "expected at least one workload".to_owned());
        }
        for (index, ceiling) in self.ceiling.iter().enumerate() {
            let is_memory = matches!(ceiling.reading, Reading::Memory | Reading::OwnMemory);
            if is_memory != ceiling.component.is_some() {
                let what = "expected the name of a service with a reading of memory, and only there";
                return wrong(&format!("ceiling.{index}.component"), what.to_owned());
            }
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            workload
                .check()
                .or_else(|(at, what)| wrong(&format!("workloads.{index}.{at}"), what))?;
            if workload.session.is_some()
                && (self.end.each_tester.is_some() || self.end.transactions.is_some())
            {
                return wrong(
                    "end",
                    "sessions end with the time: expected only duration_ns".to_owned(),
                );
            }
        }
        Ok(())
    }
}

impl Workload {
    /// The error contains the key in the workload and what is wrong with its value.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |key: &'static str, what: &str| Err((key, what.to_owned()));
        if self.endpoints.is_empty() {
            return wrong("endpoints", "expected at least one endpoint");
        }
        if self.timeout_ns == 0 {
            return wrong("timeout_ns", "expected at least 1, got 0");
        }
        if self.operations.is_empty() {
            return wrong("operations", "expected at least one operation");
        }
        if let Some(operation) = self.operations.iter().find(|operation| {
            let is_first_only = operation.weight == 0.0 && operation.first > 0;
            !(is_first_only || operation.weight > 0.0 && operation.weight.is_finite())
        }) {
            let Operation { name, weight, .. } = operation;
            return Err((
                "operations",
                format!(
                    "{name}: expected a weight greater than 0, or 0 with first greater than 0, got {weight}"
                ),
            ));
        }
        if self.operations.iter().all(|operation| operation.weight == 0.0) {
            return wrong(
                "operations",
                "expected at least one weight greater than 0, got only 0",
            );
        }
        for (name, generator) in &self.values {
            generator
                .check()
                .map_err(|error| ("values", format!("{name}: {error}")))?;
        }
        if let Some(session) = &self.session {
            session.check().map_err(|what| ("session", what.to_owned()))?;
            if !self.load.starts_by_think_time() {
                return wrong(
                    "load",
                    "sessions need testers that start by their think time: closed, ramp, or closed stages, without \
                     slots",
                );
            }
        }
        self.load.check().map_err(|what| ("load", what.to_owned()))
    }
}

impl LoadSpec {
    /// Whether all testers are closed and start a think time after their last end.
    fn starts_by_think_time(&self) -> bool {
        match self {
            Self::Closed { .. } => true,
            Self::Ramp { slots, .. } => slots.is_none(),
            Self::Stages { stages, slots, .. } => {
                slots.is_none() && stages.iter().all(|stage| stage.rate.is_none())
            }
            Self::Every { .. } | Self::Open { .. } | Self::Recorded { .. } => false,
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let rate_ok = |rate: f64| rate >= 0.0 && rate.is_finite();
        match self {
            Self::Closed { testers: 0, .. }
            | Self::Every { testers: 0, .. }
            | Self::Ramp { testers: 0, .. } => Err("expected testers of at least 1, got 0"),
            Self::Every { every_ns: 0, .. }
            | Self::Ramp {
                slots: Some(SlotSpec { every_ns: 0, .. }),
                ..
            }
            | Self::Stages {
                slots: Some(SlotSpec { every_ns: 0, .. }),
                ..
            } => Err("expected every_ns of at least 1, got 0"),
            Self::Open { rate, in_flight, .. } if !rate_ok(*rate) || *rate == 0.0 || *in_flight == 0 => {
                Err("expected rate greater than 0 and in_flight of at least 1")
            }
            Self::Recorded { at_ns, in_flight, .. }
                if at_ns.is_empty() || !at_ns.is_sorted() || *in_flight == 0 =>
            {
                Err("expected at_ns with at least one time, all times in order, and in_flight of at least 1")
            }
            Self::Stages {
                stages, in_flight, ..
            } => {
                if stages.is_empty() {
                    return Err("expected at least one stage");
                }
                if stages
                    .iter()
                    .any(|stage| stage.testers.is_some() == stage.rate.is_some())
                {
                    return Err("expected exactly one of testers and rate in each stage");
                }
                if stages
                    .iter()
                    .filter_map(|stage| stage.rate)
                    .any(|(first, last)| !rate_ok(first) || !rate_ok(last))
                {
                    return Err("expected a rate of at least 0 at both ends of each open stage");
                }
                if *in_flight == 0 && stages.iter().any(|stage| stage.rate.is_some()) {
                    return Err("expected in_flight of at least 1 for open stages, got 0");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
