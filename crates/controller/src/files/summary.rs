//! `summary.json`: the counts of a run, compared with the rows on disk.

use std::path::Path;

use plimsoll_model::{AgentTotals, Counters, Keep, Role, RunOutcome, format, grouped};
use plimsoll_record::merge::{SegmentSummary, TableSummary};
use plimsoll_record::{Conversion, RecordError, Start, Tally};
use serde::{Deserialize, Serialize};

/// End of the damage text while the segments are not converted. It is recognised in stored
/// summaries.
const SEGMENTS_KEPT: &str = "the segments are kept: make room and run `plimsoll-engine convert";
const NOT_ON_DISK: &str = "transactions are not on disk";

/// The whole document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Name and version of the format: [`format::SUMMARY`].
    pub format: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the run.
    pub run: String,
    /// How the run ended: `done`, `stopped`, `ceiling`, `agent-lost`, `service-gone` or
    /// `interrupted`.
    pub status: String,
    /// Reason of the status as text; empty if the status is `done`.
    pub reason: String,
    /// Zero of the run, ns since the epoch.
    pub t0_unix_ns: i64,
    /// End of the warm-up, ns from the start of the run.
    pub warmup_end_ns: u64,
    /// End of the measured window, ns from the start of the run.
    pub measured_end_ns: i64,
    /// Which transactions stay on disk.
    pub keep: Keep,
    /// Sum of the counters over all agents.
    pub counters: Counters,
    /// Number of transactions that were cancelled at the end of the drain.
    pub in_flight: u64,
    /// Whether started = succeeded + failed + `in_flight`, and all of these transactions are on
    /// disk (with `keep: summaries`: in the counters).
    pub balanced: bool,
    /// Faults of the recording, as text.
    pub damage: Vec<String>,
    /// Summaries of the agents.
    pub agents: Vec<AgentSummary>,
    /// Sum over the rows on disk; `None` if no transactions are kept.
    pub rows: Option<Tally>,
    /// The Parquet files of the run.
    pub tables: Vec<TableSummary>,
    /// The segments that were converted to these files.
    pub segments: Vec<SegmentSummary>,
}

/// The summary of one agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentSummary {
    /// Name of the agent.
    pub name: String,
    /// Name of its host.
    #[serde(default)]
    pub host: String,
    /// Site of its host.
    #[serde(default)]
    pub site: String,
    /// Whether the agent had testers or only watched.
    #[serde(default)]
    pub role: Role,
    /// Zero of the run on the agent's raw clock, ns.
    pub t0_raw_ns: i64,
    /// Whether the agent was lost. The counts of a lost agent are those of its rows on disk.
    pub lost: bool,
    /// Time at which it was lost, ns from the start of the run.
    #[serde(default)]
    pub lost_ns: Option<i64>,
    /// End of the last second that it reported, ns from the start of the run. Between this and its
    /// loss its load is unknown until its segments are fetched.
    #[serde(default)]
    pub reported_ns: Option<i64>,
    /// End of its measured window, ns from the start of the run; `None` if it was not reported.
    pub window_ns: Option<i64>,
    /// Final counts of the agent.
    #[serde(rename = "books")]
    pub totals: AgentTotals,
}

/// The damage of all agents. If there are several agents, each text contains the name of its agent.
fn damage_of(agents: &[AgentSummary]) -> Vec<String> {
    let named = |agent: &AgentSummary, text: &String| match agents.len() {
        2.. if !text.contains(&format!("agent {}", agent.name)) => format!("agent {}: {text}", agent.name),
        _ => text.clone(),
    };
    agents
        .iter()
        .flat_map(|agent| agent.totals.damage.iter().map(move |text| named(agent, text)))
        .collect()
}

impl Summary {
    /// A summary without the rows on disk.
    pub(crate) fn new(start: &Start, agents: Vec<AgentSummary>) -> Self {
        Self {
            format: format::SUMMARY.to_owned(),
            experiment: start.experiment.clone(),
            run: start.run.clone(),
            status: "done".into(),
            reason: String::new(),
            t0_unix_ns: start.t0_unix_ns,
            warmup_end_ns: start.warmup_ns,
            measured_end_ns: 0,
            keep: start.keep,
            counters: Counters::default(),
            in_flight: 0,
            balanced: false,
            damage: damage_of(&agents),
            agents,
            rows: None,
            tables: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Completes the summary without the segments of `run`, which could not be converted.
    pub(crate) fn postpone(&mut self, run: &Path, error: &RecordError) {
        self.damage
            .push(format!("{error}; {SEGMENTS_KEPT} {}`", run.display()));
        self.add_up();
    }

    /// Completes the summary with the rows on disk. It may be repeated: all values are computed
    /// again.
    pub(crate) fn settle(&mut self, conversion: &Conversion) {
        // The text of an earlier attempt no longer applies.
        self.damage.retain(|text| !text.contains(SEGMENTS_KEPT));
        self.rows = (self.keep == Keep::All).then(|| conversion.tally());
        self.tables.clone_from(&conversion.tables);
        self.segments.clone_from(&conversion.segments);
        for text in &conversion.damage {
            if !self.damage.contains(text) {
                self.damage.push(text.clone());
            }
        }
        for agent in self
            .agents
            .iter_mut()
            .filter(|agent| agent.lost && self.keep == Keep::All)
        {
            let tally = conversion.tallies.get(&agent.name).copied().unwrap_or_default();
            agent.totals.counters = tally.counters;
            agent.totals.in_flight = tally.in_flight;
        }
        self.add_up();
    }

    /// Removes the damage of lost agents whose segments were fetched: their loss is then an event
    /// of the run, but no damage of its record.
    pub(crate) fn remove_loss_damage(&mut self) {
        for agent in self.agents.iter_mut().filter(|agent| agent.lost) {
            if self.segments.iter().any(|segment| segment.agent == agent.name) {
                let removed = std::mem::take(&mut agent.totals.damage);
                self.damage
                    .retain(|text| !removed.iter().any(|each| text.contains(each.as_str())));
            }
        }
    }

    /// Computes the sums over the agents, and whether the counts balance.
    pub(crate) fn add_up(&mut self) {
        self.counters = Counters::default();
        self.in_flight = 0;
        for agent in &self.agents {
            self.counters.add(&agent.totals.counters);
            self.in_flight += agent.totals.in_flight;
        }
        let last_row = self.rows.map_or(0, |rows| rows.last_end_ns);
        self.measured_end_ns = self
            .agents
            .iter()
            .filter_map(|agent| agent.window_ns)
            .max()
            .unwrap_or(last_row);
        let counters = &self.counters;
        let closed = counters.started == counters.succeeded + counters.failed + self.in_flight;
        let kept = match (self.keep, self.rows) {
            (Keep::Summaries, _) => true,
            (Keep::All, None) => false,
            (Keep::All, Some(rows)) => {
                let of_rows = (
                    rows.counters.started,
                    rows.counters.succeeded,
                    rows.counters.failed,
                    rows.in_flight,
                );
                of_rows
                    == (
                        counters.started,
                        counters.succeeded,
                        counters.failed,
                        self.in_flight,
                    )
            }
        };
        self.balanced =
            closed && kept && counters.lost_records == 0 && !self.agents.iter().any(AgentSummary::is_missed);
        self.damage.retain(|text| !text.ends_with(NOT_ON_DISK));
        let missing = counters
            .started
            .saturating_sub(self.rows.map_or(counters.started, |rows| rows.counters.started));
        if self.keep == Keep::All && missing > 0 && self.rows.is_some() {
            self.damage.push(format!(
                "{} of {} {NOT_ON_DISK}",
                grouped(missing),
                grouped(counters.started)
            ));
        }
    }

    /// Whether an agent on another host may still have segments of this run: it was lost and none
    /// of its segments was fetched, or some of its segments are missing.
    pub(crate) fn outstanding(&self, start: &Start) -> bool {
        let held = |name: &String| self.segments.iter().any(|segment| segment.name == *name);
        self.agents.iter().any(|agent| {
            let far = start
                .agents
                .iter()
                .any(|known| known.name == agent.name && !known.same_clock);
            let has_none = !self.segments.iter().any(|segment| segment.agent == agent.name);
            far && (agent.lost && has_none || !agent.totals.segments.iter().all(held))
        })
    }

    /// The event for the lab.
    pub(crate) fn outcome(&self) -> RunOutcome {
        RunOutcome {
            status: self.status.clone(),
            reason: self.reason.clone(),
            counters: self.counters,
            in_flight: self.in_flight,
            balanced: self.balanced,
            damage: self.damage.clone(),
            lost: self
                .agents
                .iter()
                .filter(|agent| agent.is_missed())
                .map(|agent| agent.name.clone())
                .collect(),
        }
    }
}

impl AgentSummary {
    /// Whether the agent was lost with a part of the load. The loss of a watching agent changes no
    /// counts.
    fn is_missed(&self) -> bool {
        self.lost && self.role == Role::Testers
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_record::AgentStart;

    use super::*;

    fn summary(keep: Keep, started: u64, succeeded: u64, failed: u64, in_flight: u64) -> Summary {
        let start = Start {
            format: format::START.into(),
            experiment: "e".into(),
            run: "0001".into(),
            t0_unix_ns: 0,
            t0_ns: 7,
            assumptions: plimsoll_clock::Assumptions::default(),
            warmup_ns: 0,
            duration_ns: None,
            keep,
            agents: vec![AgentStart {
                name: "local".into(),
                host: "local".into(),
                site: "local".into(),
                role: Role::Testers,
                t0_raw_ns: 7,
                same_clock: true,
            }],
        };
        let counters = Counters {
            started,
            succeeded,
            failed,
            ..Counters::default()
        };
        let totals = AgentTotals {
            counters,
            in_flight,
            ..AgentTotals::default()
        };
        let agent = AgentSummary {
            name: "local".into(),
            t0_raw_ns: 7,
            host: "local".into(),
            site: "local".into(),
            role: Role::Testers,
            lost: false,
            lost_ns: None,
            reported_ns: None,
            window_ns: Some(5),
            totals,
        };
        Summary::new(&start, vec![agent])
    }

    fn conversion(started: u64, succeeded: u64, failed: u64, in_flight: u64) -> Conversion {
        let counters = Counters {
            started,
            succeeded,
            failed,
            ..Counters::default()
        };
        let mut conversion = Conversion::default();
        conversion.tallies.insert(
            "local".into(),
            Tally {
                counters,
                in_flight,
                last_end_ns: 99,
            },
        );
        conversion
    }

    #[test]
    fn balanced_is_checked_against_the_rows() {
        let cases = [
            ((10, 7, 2, 1), (10, 7, 2, 1), true),
            ((10, 7, 2, 0), (10, 7, 2, 1), false), // one transaction has no outcome
            ((10, 7, 2, 1), (9, 6, 2, 1), false),  // one is not on disk
            ((10, 7, 2, 1), (10, 6, 3, 1), false), // the outcomes on disk differ
        ];
        for ((a, b, c, d), (e, f, g, h), expected) in cases {
            let mut summary = summary(Keep::All, a, b, c, d);
            summary.settle(&conversion(e, f, g, h));
            assert_eq!(summary.balanced, expected, "{:?}", summary.damage);
            assert_eq!(summary.measured_end_ns, 5);
        }
    }

    #[test]
    fn with_a_lost_record_the_counts_do_not_balance() {
        let mut summary = summary(Keep::Summaries, 10, 9, 0, 1);
        summary.agents[0].totals.counters.lost_records = 1;
        summary.settle(&Conversion::default());
        assert!(!summary.balanced);
    }

    #[test]
    fn with_keep_summaries_the_counters_decide_the_balance() {
        let mut summary = summary(Keep::Summaries, 10, 9, 0, 1);
        summary.settle(&Conversion::default());
        assert!(summary.balanced);
        assert_eq!(summary.rows, None);
    }

    #[test]
    fn a_second_conversion_removes_the_damage_of_the_first() {
        let mut summary = summary(Keep::All, 10, 9, 0, 1);
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let run = Path::new("/results/0001");
        summary.postpone(run, &RecordError::io("writing", run, full));
        assert!(!summary.balanced);
        assert!(
            summary.damage[0].contains("No space left")
                && summary.damage[0].contains("convert /results/0001`"),
            "{:?}",
            summary.damage
        );
        summary.settle(&conversion(6, 5, 0, 1));
        assert_eq!(summary.damage, ["4 of 10 transactions are not on disk"]);
        summary.settle(&conversion(10, 9, 0, 1));
        assert_eq!((summary.balanced, summary.damage), (true, vec![]));
    }

    #[test]
    fn a_lost_agent_has_the_counts_of_its_rows() {
        let mut summary = summary(Keep::All, 100, 100, 0, 0);
        summary.agents[0].lost = true;
        summary.agents[0].window_ns = None;
        summary.settle(&conversion(80, 80, 0, 0));
        assert_eq!((summary.counters.started, summary.balanced), (80, false));
        assert_eq!(summary.measured_end_ns, 99);
        assert_eq!(summary.outcome().lost, ["local"]);
    }

    #[test]
    fn the_loss_of_a_watching_agent_changes_no_counts() {
        let mut summary = summary(Keep::All, 10, 10, 0, 0);
        let mut watcher = summary.agents[0].clone();
        (watcher.name, watcher.role, watcher.lost) = ("db1".into(), Role::Watch, true);
        (watcher.totals, watcher.window_ns) = (AgentTotals::default(), None);
        summary.agents.push(watcher);
        summary.settle(&conversion(10, 10, 0, 0));
        assert!(summary.balanced && summary.damage.is_empty());
        assert!(summary.outcome().lost.is_empty());
    }
}
