//! Converts each agent's clock to times of the run, and writes the file with the clock maps:
//! `clock.json`.

use std::collections::BTreeMap;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type};
use plimsoll_clock::steps::{Reading, steps};
use plimsoll_clock::{Assumptions, ClockMap, Piece, Probe, Via, estimate};
use plimsoll_model::format;
use serde::{Deserialize, Serialize};

use crate::read::{Head, Segment};
use crate::{RecordError, Start, write_json};

/// Name of the file in the run's directory.
pub const CLOCK_FILE: &str = "clock.json";

/// The clock of every agent, relative to the controller's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// [`format::CLOCK_MAP`].
    pub format: String,
    /// Start of the run on the controller's clock, ns.
    pub t0_ns: i64,
    /// Assumptions on which the bounds depend.
    pub assumptions: Assumptions,
    /// Clocks of the agents, by name of the agent.
    pub agents: BTreeMap<String, AgentClock>,
}

/// One agent's clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentClock {
    /// Whether the agent uses the controller's clock.
    pub same: bool,
    /// Map from agent time to controller time; none if the clock is the same or the map is unknown.
    pub map: Option<ClockMap>,
    /// Intervals with one drift each.
    pub pieces: Vec<Piece>,
    /// Number of probes that were used.
    pub probes: usize,
    /// Number of probes that were rejected because their stamps are impossible.
    pub rejected: usize,
    /// Minimum round trip of the probes, ns; none without probes.
    pub rtt_min_ns: Option<i64>,
    /// Median round trip of the probes, ns; none without probes.
    pub rtt_median_ns: Option<i64>,
    /// Maximum error of any time of this agent in this run, ns; none if it is unknown.
    pub bound_ns: Option<i64>,
    /// Start of the agent's load, ns since the start of the run (negative: before it), by the final
    /// map.
    pub started_ns: Option<i64>,
    /// Steps of the agent's wall clock: time of the run and size, ns. They change no figure.
    pub steps: Vec<(i64, i64)>,
    /// Message about a fault of the clock; empty if there is none.
    pub remark: String,
}

/// Conversion of the stamps of one agent to times of the run.
#[derive(Debug, Clone)]
pub(crate) enum Timeline {
    /// Subtracts this many ns.
    Shift(i64),
    /// Applies the map, then subtracts this many ns.
    Map(Box<ClockMap>, i64),
}

impl Timeline {
    /// Time of the run, ns, at which the agent's clock showed `raw_ns`.
    pub(crate) fn at(&self, raw_ns: i64) -> i64 {
        match self {
            Self::Shift(zero) => raw_ns.wrapping_sub(*zero),
            Self::Map(map, zero) => map.at(raw_ns).controller_ns.wrapping_sub(*zero),
        }
    }
}

impl Clocks {
    /// The clocks according to the segments of a run. If the probes of an agent are no longer in
    /// segments, the result of an earlier conversion in `run/clock.json` is kept.
    pub(crate) fn find(run: &Path, start: &Start, heads: &[Head]) -> Self {
        let mut clocks = Self::read(run).unwrap_or_default();
        format::CLOCK_MAP.clone_into(&mut clocks.format);
        clocks.t0_ns = start.t0_ns;
        clocks.assumptions = start.assumptions;
        for agent in &start.agents {
            let own = |format: &'static str| {
                heads
                    .iter()
                    .filter(move |head| head.agent == agent.name && format::readable(format, &head.format))
            };
            let probes = rows(own(format::PROBES), probe);
            let readings = rows(own(format::CLOCK), reading);
            if probes.is_empty() && readings.is_empty() && clocks.agents.contains_key(&agent.name) {
                continue;
            }
            let mut clock = if agent.same_clock {
                AgentClock {
                    same: true,
                    bound_ns: Some(0),
                    started_ns: Some(0),
                    ..AgentClock::default()
                }
            } else {
                map(&probes, start, agent.t0_raw_ns)
            };
            let timeline = clock.timeline(start, agent.t0_raw_ns);
            clock.steps = steps(&readings)
                .iter()
                .map(|step| (timeline.at(step.at_raw_ns), step.by_ns))
                .collect();
            clocks.agents.insert(agent.name.clone(), clock);
        }
        clocks
    }

    fn read(run: &Path) -> Option<Self> {
        let text = std::fs::read(run.join(CLOCK_FILE)).ok()?;
        let clocks: Self = serde_json::from_slice(&text).ok()?;
        format::readable(format::CLOCK_MAP, &clocks.format).then_some(clocks)
    }

    /// # Errors
    /// [`RecordError::Io`].
    pub(crate) fn write(&self, run: &Path) -> Result<(), RecordError> {
        write_json(&run.join(CLOCK_FILE), self)
    }

    /// The timeline of `agent`. None if the run has no such agent.
    pub(crate) fn timeline(&self, start: &Start, agent: &str) -> Option<Timeline> {
        let known = start.agents.iter().find(|known| known.name == agent)?;
        let clock = self.agents.get(agent)?;
        Some(clock.timeline(start, known.t0_raw_ns))
    }
}

impl AgentClock {
    fn timeline(&self, start: &Start, t0_raw_ns: i64) -> Timeline {
        match &self.map {
            Some(map) => Timeline::Map(Box::new(map.clone()), start.t0_ns),
            None => Timeline::Shift(t0_raw_ns),
        }
    }
}

fn map(probes: &[Probe], start: &Start, t0_raw_ns: i64) -> AgentClock {
    let round_trips = probes
        .iter()
        .filter_map(|probe| probe.round_trip_ns(&start.assumptions));
    let mut sorted_trips: Vec<i64> = round_trips.collect();
    sorted_trips.sort_unstable();
    let mut clock = AgentClock {
        rtt_min_ns: sorted_trips.first().copied(),
        rtt_median_ns: sorted_trips.get(sorted_trips.len() / 2).copied(),
        ..AgentClock::default()
    };
    match estimate(probes, &start.assumptions) {
        Ok(estimated) => {
            clock.bound_ns = Some(estimated.map.worst_bound_ns());
            clock.started_ns = Some(estimated.map.at(t0_raw_ns).controller_ns - start.t0_ns);
            clock.probes = probes.len() - estimated.rejected;
            clock.rejected = estimated.rejected;
            clock.pieces = estimated.pieces;
            clock.map = Some(estimated.map);
        }
        Err(error) => {
            clock.rejected = probes.len();
            clock.remark =
                format!("{error}; the times of the agent are relative to its own start of the run");
        }
    }
    clock
}

/// All readable rows of segments, converted by `convert`.
fn rows<'a, R>(
    heads: impl Iterator<Item = &'a Head>,
    convert: fn(&RecordBatch, usize) -> Option<R>,
) -> Vec<R> {
    let mut rows = Vec::new();
    for head in heads {
        let Ok(mut segment) = Segment::open(&head.path) else {
            continue;
        };
        while let Ok(Some(batch)) = segment.next_batch() {
            rows.extend((0..batch.num_rows()).filter_map(|row| convert(&batch, row)));
        }
    }
    rows
}

fn number(batch: &RecordBatch, column: &str, row: usize) -> Option<i64> {
    let column = batch.column_by_name(column)?.as_primitive_opt::<Int64Type>()?;
    Some(column.value(row))
}

fn probe(batch: &RecordBatch, row: usize) -> Option<Probe> {
    let via = batch.column_by_name("via")?.as_dictionary_opt::<UInt16Type>()?;
    let words = via.values().as_string_opt::<i32>()?;
    Some(Probe {
        sent: number(batch, "sent", row)?,
        heard: number(batch, "heard", row)?,
        answered: number(batch, "answered", row)?,
        received: number(batch, "received", row)?,
        via: match words.value(usize::from(via.keys().value(row))) {
            "udp" => Via::Udp,
            _ => Via::Link,
        },
    })
}

fn reading(batch: &RecordBatch, row: usize) -> Option<Reading> {
    Some(Reading {
        raw_ns: number(batch, "raw", row)?,
        monotonic_ns: number(batch, "monotonic", row)?,
        realtime_ns: number(batch, "realtime", row)?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use plimsoll_clock::{Begin, Clock, TestClock};
    use plimsoll_model::Keep;

    use super::*;
    use crate::segment::Origin;
    use crate::{AgentStart, ClockReading, SideWriter, convert};

    const SECOND: i64 = 1_000_000_000;

    /// A run of two agents: one with the controller's clock, one whose clock shows 5,000 s less and
    /// gains 20 ppm.
    fn start() -> Start {
        let agent = |name: &str, t0_raw_ns, same_clock| AgentStart {
            name: name.into(),
            host: name.into(),
            site: "s".into(),
            role: plimsoll_model::Role::Testers,
            t0_raw_ns,
            same_clock,
        };
        Start {
            format: format::START.into(),
            experiment: "e".into(),
            run: "0001".into(),
            t0_unix_ns: 0,
            t0_ns: 9_000 * SECOND,
            warmup_ns: 0,
            duration_ns: None,
            keep: Keep::All,
            assumptions: Assumptions::default(),
            agents: vec![
                agent("near", 9_000 * SECOND, true),
                agent("far", far(9_000 * SECOND) + 300_000, false),
            ],
        }
    }

    /// The far agent's clock at the controller time `controller_ns`.
    fn far(controller_ns: i64) -> i64 {
        let since = controller_ns - 9_000 * SECOND;
        4_000 * SECOND + since + since / 50_000
    }

    fn origin(agent: &str) -> Origin {
        Origin {
            format: format::CLOCK,
            agent: agent.into(),
            run: "0001".into(),
            experiment: "e".into(),
        }
    }

    #[test]
    fn times_of_an_agent_with_another_clock_are_mapped_by_its_probes() {
        let run = std::env::temp_dir().join(format!("plimsoll-timeline-{}", std::process::id()));
        let segments = run.join("segments");
        let _ = fs::remove_dir_all(&run);
        fs::create_dir_all(&segments).unwrap();
        let mut probes = SideWriter::<Probe>::new(&segments, &origin("far"));
        for second in -2..60 {
            let controller_ns = (9_000 + second) * SECOND;
            let probe = Probe {
                sent: far(controller_ns - 100_000),
                heard: controller_ns,
                answered: controller_ns + 10_000,
                received: far(controller_ns + 110_000),
                via: Via::Udp,
            };
            probes.write(&[probe]).unwrap();
        }
        assert_eq!(probes.finish().0, ["far-probes-000.arrow"]);
        let mut readings = SideWriter::<ClockReading>::new(&segments, &origin("far"));
        for second in 0..50 {
            let raw_ns = far((9_000 + second) * SECOND);
            let stepped = if second >= 20 { 3 * SECOND } else { 0 };
            let reading = ClockReading {
                raw_ns,
                monotonic_ns: raw_ns,
                realtime_ns: raw_ns + stepped,
            };
            readings.write(&[reading]).unwrap();
        }
        readings.finish().1.unwrap();
        let conversion = convert(&run, &start()).unwrap();
        assert!(conversion.damage.is_empty(), "{:?}", conversion.damage);
        let clock = &conversion.clocks.agents["far"];
        assert_eq!((clock.probes, clock.rtt_min_ns), (62, Some(200_004)));
        // Half a round trip, and 500 ppm of the half second until the next probe.
        assert!(
            clock
                .bound_ns
                .is_some_and(|bound| (349_000..351_000).contains(&bound)),
            "{:?}",
            clock.bound_ns
        );
        assert!(
            clock.started_ns.is_some_and(|ns| (ns - 300_000).abs() < 20_000),
            "{:?}",
            clock.started_ns
        );
        assert!(
            (clock.pieces[0].drift_ppm + 20.0).abs() < 0.5,
            "{:?}",
            clock.pieces
        );
        let [(at, by)] = clock.steps[..] else {
            panic!("{:?}", clock.steps)
        };
        assert!((at - 20 * SECOND).abs() < 100_000 && by == 3 * SECOND);
        assert!(conversion.clocks.agents["near"].same);
        let timeline = conversion.clocks.timeline(&start(), "far").unwrap();
        for second in [0, 30, 59] {
            let time = timeline.at(far((9_000 + second) * SECOND));
            assert!((time - second * SECOND).abs() < 20_000, "{time}");
        }
        // A second conversion, after the probes were moved to Parquet, keeps the map.
        conversion.clean_up(false);
        fs::create_dir_all(&segments).unwrap();
        let again = convert(&run, &start()).unwrap();
        assert_eq!(again.clocks, conversion.clocks);
        fs::remove_dir_all(&run).unwrap();
    }

    /// A run in which the wall clock of the far agent is set at these seconds by these ns.
    fn converted(name: &str, steps: &[(i64, i64)]) -> Clocks {
        let run = std::env::temp_dir().join(format!("plimsoll-timeline-{name}-{}", std::process::id()));
        let segments = run.join("segments");
        let _ = fs::remove_dir_all(&run);
        fs::create_dir_all(&segments).unwrap();
        let clock = TestClock::new(far(9_000 * SECOND), 1_700_000_000 * SECOND, 40_000);
        let mut probes = SideWriter::<Probe>::new(&segments, &origin("far"));
        let mut readings = SideWriter::<ClockReading>::new(&segments, &origin("far"));
        for second in 0..60 {
            if let Some((_, by_ns)) = steps.iter().find(|(at, _)| *at == second) {
                clock.step(*by_ns);
            }
            let raw_ns = clock.raw_ns();
            let controller_ns = (9_000 + second) * SECOND;
            let probe = Probe {
                sent: raw_ns,
                heard: controller_ns + 100_000,
                answered: controller_ns + 110_000,
                received: raw_ns + 210_000,
                via: Via::Udp,
            };
            probes.write(&[probe]).unwrap();
            let reading = ClockReading {
                raw_ns,
                monotonic_ns: clock.monotonic_ns(),
                realtime_ns: clock.realtime_ns(),
            };
            readings.write(&[reading]).unwrap();
            clock.advance((far(controller_ns + SECOND) - far(controller_ns)).cast_unsigned());
        }
        probes.finish().1.unwrap();
        readings.finish().1.unwrap();
        let conversion = convert(&run, &start()).unwrap();
        assert!(conversion.damage.is_empty(), "{:?}", conversion.damage);
        fs::remove_dir_all(&run).unwrap();
        conversion.clocks
    }

    #[test]
    fn a_step_of_the_wall_clock_is_reported_and_changes_no_time() {
        let steady = converted("steady", &[]);
        let mut stepped = converted("stepped", &[(20, 3_600 * SECOND), (40, -10 * SECOND)]);
        let reported: Vec<_> = stepped
            .events()
            .into_iter()
            .map(|event| ((event.t_ns + SECOND / 2) / SECOND, event.kind, event.text))
            .collect();
        let text = |change: &str| {
            format!("agent far: the wall clock of the host was set {change}; no figure is affected")
        };
        assert_eq!(
            reported,
            [
                (20, "clock-step", text("forward by 3600 s")),
                (40, "clock-step", text("back by 10 s"))
            ]
        );
        assert_eq!(steady.events(), []);
        let (steady_times, stepped_times) = (
            steady.timeline(&start(), "far"),
            stepped.timeline(&start(), "far"),
        );
        for second in 0..60 {
            let raw_ns = far((9_000 + second) * SECOND);
            let times = [&steady_times, &stepped_times].map(|timeline| timeline.as_ref().unwrap().at(raw_ns));
            assert_eq!(times[0], times[1], "second {second}");
        }
        stepped.agents.get_mut("far").unwrap().steps.clear();
        assert_eq!(stepped, steady, "only the steps differ");
    }

    #[test]
    fn jumps_and_changes_of_the_route_are_reported_with_their_times() {
        let piece = |from: i64, offset: i64, begins| Piece {
            from_ns: from * SECOND,
            to_ns: (from + 10) * SECOND,
            offset_ns: offset,
            drift_ppm: 0.0,
            drift_low_ppm: 0.0,
            drift_high_ppm: 0.0,
            probes: 10,
            begins,
        };
        let clock = AgentClock {
            pieces: vec![
                piece(4_000, 5_000 * SECOND, Begin::Start),
                piece(4_010, 5_000 * SECOND, Begin::Knot),
                piece(4_020, 5_002 * SECOND, Begin::Jump),
                piece(4_030, 5_002 * SECOND, Begin::RouteChange),
                piece(4_040, 5_001 * SECOND, Begin::Shift),
            ],
            ..AgentClock::default()
        };
        let clocks = Clocks {
            t0_ns: 9_000 * SECOND,
            agents: BTreeMap::from([("a".to_owned(), clock)]),
            ..Clocks::default()
        };
        let reported: Vec<_> = clocks.events();
        let reported: Vec<_> = reported
            .iter()
            .map(|event| (event.t_ns / SECOND, event.kind, event.text.as_str()))
            .collect();
        assert_eq!(
            reported,
            [
                (
                    22,
                    "clock-jump",
                    "agent a: the clock jumped by 2 s: was the machine suspended or migrated?"
                ),
                (
                    32,
                    "route-change",
                    "agent a: the delay between agent and controller changed at this time"
                ),
                (
                    41,
                    "clock-shift",
                    "agent a: the clock jumped by 1 s, or probes were delayed in one direction only: \
                     the bound includes both cases"
                ),
            ]
        );
    }

    #[test]
    fn without_probes_times_are_relative_to_the_agents_start_and_the_remark_states_it() {
        let clock = map(&[], &start(), 77);
        assert!(
            clock.remark.contains("relative to its own start of the run"),
            "{}",
            clock.remark
        );
        assert_eq!((clock.map.as_ref(), clock.bound_ns), (None, None));
        assert_eq!(clock.timeline(&start(), 77).at(80), 3);
    }
}
