//! From each agent's clock to the time of the run, and the file that says how: `clock.json`.

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

/// Every agent's clock against the controller's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// [`format::CLOCK_MAP`].
    pub format: String,
    /// The run's zero on the controller's clock, ns.
    pub t0_ns: i64,
    /// What the bounds rest on.
    pub assumptions: Assumptions,
    /// By name.
    pub agents: BTreeMap<String, AgentClock>,
}

/// One agent's clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentClock {
    /// It is the controller's own.
    pub same: bool,
    /// Agent time to controller time; none where it is the same, or not known.
    pub map: Option<ClockMap>,
    /// Stretches with one drift each.
    pub pieces: Vec<Piece>,
    /// Probes that were believed, and that were not.
    pub probes: usize,
    /// Likewise.
    pub rejected: usize,
    /// Least and median round trip of the probes, ns; none without probes.
    pub rtt_min_ns: Option<i64>,
    /// Likewise.
    pub rtt_median_ns: Option<i64>,
    /// Greatest error of any time of this agent in this run, ns; none when nothing is known.
    pub bound_ns: Option<i64>,
    /// The agent's load began so many ns after the run's zero (before: negative), by the final map.
    pub started_ns: Option<i64>,
    /// Steps of its wall clock: time of the run and size, ns. They change no number.
    pub steps: Vec<(i64, i64)>,
    /// What is wrong with it, for people; empty when nothing is.
    pub remark: String,
}

/// How stamps of one agent become times of the run.
#[derive(Debug, Clone)]
pub(crate) enum Timeline {
    /// So many ns are taken off.
    Shift(i64),
    /// Through the map, then so many ns are taken off.
    Map(Box<ClockMap>, i64),
}

impl Timeline {
    /// Time of the run, ns, when the agent's clock showed `raw_ns`.
    pub(crate) fn at(&self, raw_ns: i64) -> i64 {
        match self {
            Self::Shift(zero) => raw_ns.wrapping_sub(*zero),
            Self::Map(map, zero) => map.at(raw_ns).controller_ns.wrapping_sub(*zero),
        }
    }
}

impl Clocks {
    /// What the segments of a run say; what an earlier conversion has found of agents whose probes
    /// are gone stands in `run/clock.json`, and stays.
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

    /// Of an agent of the run; none for another.
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
    let believed = probes
        .iter()
        .filter_map(|probe| probe.round_trip_ns(&start.assumptions));
    let mut trips: Vec<i64> = believed.collect();
    trips.sort_unstable();
    let mut clock = AgentClock {
        rtt_min_ns: trips.first().copied(),
        rtt_median_ns: trips.get(trips.len() / 2).copied(),
        ..AgentClock::default()
    };
    match estimate(probes, &start.assumptions) {
        Ok(found) => {
            clock.bound_ns = Some(found.map.worst_bound_ns());
            clock.started_ns = Some(found.map.at(t0_raw_ns).controller_ns - start.t0_ns);
            clock.probes = probes.len() - found.rejected;
            clock.rejected = found.rejected;
            clock.pieces = found.pieces;
            clock.map = Some(found.map);
        }
        Err(error) => {
            clock.rejected = probes.len();
            clock.remark = format!("{error}; its times are counted from when it began");
        }
    }
    clock
}

/// All rows of segments that can be read, turned by `turn`.
fn rows<'a, R>(heads: impl Iterator<Item = &'a Head>, turn: fn(&RecordBatch, usize) -> Option<R>) -> Vec<R> {
    let mut found = Vec::new();
    for head in heads {
        let Ok(mut segment) = Segment::open(&head.path) else {
            continue;
        };
        while let Ok(Some(batch)) = segment.next_batch() {
            found.extend((0..batch.num_rows()).filter_map(|row| turn(&batch, row)));
        }
    }
    found
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

    /// A run of two agents: one with our clock, one whose clock shows 5,000 s less and gains 20
    /// ppm.
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

    /// What the far clock shows at a time of ours.
    fn far(ours: i64) -> i64 {
        let since = ours - 9_000 * SECOND;
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
    fn times_of_an_agent_with_another_clock_are_placed_by_its_probes() {
        let run = std::env::temp_dir().join(format!("plimsoll-timeline-{}", std::process::id()));
        let segments = run.join("segments");
        let _ = fs::remove_dir_all(&run);
        fs::create_dir_all(&segments).unwrap();
        let mut probes = SideWriter::<Probe>::new(&segments, &origin("far"));
        for second in -2..60 {
            let ours = (9_000 + second) * SECOND;
            let probe = Probe {
                sent: far(ours - 100_000),
                heard: ours,
                answered: ours + 10_000,
                received: far(ours + 110_000),
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
        let merged = convert(&run, &start()).unwrap();
        assert!(merged.damage.is_empty(), "{:?}", merged.damage);
        let clock = &merged.clocks.agents["far"];
        assert_eq!((clock.probes, clock.rtt_min_ns), (62, Some(200_004)));
        // Half a round trip, and 500 ppm of the half second to the next probe.
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
        assert!(merged.clocks.agents["near"].same);
        let timeline = merged.clocks.timeline(&start(), "far").unwrap();
        for second in [0, 30, 59] {
            let found = timeline.at(far((9_000 + second) * SECOND));
            assert!((found - second * SECOND).abs() < 20_000, "{found}");
        }
        // Converted again, when the probes are in Parquet already: what was found stays.
        merged.clean_up(false);
        fs::create_dir_all(&segments).unwrap();
        let again = convert(&run, &start()).unwrap();
        assert_eq!(again.clocks, merged.clocks);
        fs::remove_dir_all(&run).unwrap();
    }

    /// A run whose far agent has its wall clock set by so much at these seconds.
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
            let ours = (9_000 + second) * SECOND;
            let probe = Probe {
                sent: raw_ns,
                heard: ours + 100_000,
                answered: ours + 110_000,
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
            clock.advance((far(ours + SECOND) - far(ours)).cast_unsigned());
        }
        probes.finish().1.unwrap();
        readings.finish().1.unwrap();
        let merged = convert(&run, &start()).unwrap();
        assert!(merged.damage.is_empty(), "{:?}", merged.damage);
        fs::remove_dir_all(&run).unwrap();
        merged.clocks
    }

    #[test]
    fn a_wall_clock_that_is_set_is_told_and_changes_no_number() {
        let still = converted("still", &[]);
        let mut stepped = converted("stepped", &[(20, 3_600 * SECOND), (40, -10 * SECOND)]);
        let told: Vec<_> = stepped
            .events()
            .into_iter()
            .map(|event| ((event.t_ns + SECOND / 2) / SECOND, event.kind, event.text))
            .collect();
        let text = |what: &str| format!("agent far: its wall clock was set {what}; no number changes by it");
        assert_eq!(
            told,
            [
                (20, "clock-step", text("forward by 3600 s")),
                (40, "clock-step", text("back by 10 s"))
            ]
        );
        assert_eq!(still.events(), []);
        let (one, other) = (still.timeline(&start(), "far"), stepped.timeline(&start(), "far"));
        for second in 0..60 {
            let raw_ns = far((9_000 + second) * SECOND);
            let times = [&one, &other].map(|timeline| timeline.as_ref().unwrap().at(raw_ns));
            assert_eq!(times[0], times[1], "second {second}");
        }
        stepped.agents.get_mut("far").unwrap().steps.clear();
        assert_eq!(stepped, still, "nothing but the steps is different");
    }

    #[test]
    fn a_jump_and_another_route_are_told_when_they_were() {
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
        let told: Vec<_> = clocks.events();
        let told: Vec<_> = told
            .iter()
            .map(|event| (event.t_ns / SECOND, event.kind, event.text.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (
                    22,
                    "clock-jump",
                    "agent a: its clock jumped by 2 s (suspended, or moved?)"
                ),
                (
                    32,
                    "route-change",
                    "agent a: the way between it and the controller took another time from here on"
                ),
                (
                    41,
                    "clock-shift",
                    "agent a: its clock jumped by 1 s, or its probes were held up in one direction: \
                     no number takes a side"
                ),
            ]
        );
    }

    #[test]
    fn without_probes_times_are_counted_from_the_start_and_the_file_says_so() {
        let clock = map(&[], &start(), 77);
        assert!(
            clock.remark.contains("counted from when it began"),
            "{}",
            clock.remark
        );
        assert_eq!((clock.map.as_ref(), clock.bound_ns), (None, None));
        assert_eq!(clock.timeline(&start(), 77).at(80), 3);
    }
}
