//! One run of an agent: starts and ends its testers, recorder and monitor.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_clock::{Clock, SystemClock};
use plimsoll_drive::{AgentPortion, Drive, DriveEvent, Portions, Sink, lanes_for};
use plimsoll_link::{Line, Portion, Prepare, ToController};
use plimsoll_model::{AgentTotals, Codes, Counters, MetricRow, RunSpec, Transaction, grouped};
use plimsoll_monitor::{MonitorConfig, MonitorEvent, MonitorThread, MonitorTotals};
use plimsoll_record::segment::Origin;
use plimsoll_record::{LaneSink, Names, Recorder, RecorderConfig, RecordingTotals, SecondMerger};

use crate::error::PrepareError;
use crate::probing::Probing;

/// Maximum number of batches between lanes and recorder. With 1,024 transactions per batch this is
/// half a million transactions, or 90 MB.
const MAX_BATCHES: usize = 512;
/// Maximum number of events that wait for this thread; a lane sends a few per second.
const MAX_EVENTS: usize = 4096;

/// The sink of a lane, as the interface of the drive.
struct Lane(LaneSink);

impl Sink for Lane {
    fn deliver(&mut self, batch: &mut Vec<Transaction>) -> usize {
        self.0.deliver(batch)
    }

    fn metrics(&mut self, rows: &mut Vec<MetricRow>) -> usize {
        self.0.metrics(rows)
    }
}

/// A run that is prepared or in progress.
pub(crate) struct Run {
    drive: Arc<Drive>,
    clock: Arc<dyn Clock>,
    origin: Origin,
    prepare: Prepare,
    /// Directory of the segments.
    spool: PathBuf,
    probing: Arc<Probing>,
    /// Recorder, events of the lanes and number of lanes. Go, or a Stop before it, moves them to
    /// the thread that completes the run.
    parts: Option<(Recorder, Receiver<DriveEvent>, usize)>,
    /// For an agent without testers: it watches until the sender is dropped by a Stop.
    watching: Option<(Sender<()>, Receiver<()>)>,
    closing: Option<JoinHandle<()>>,
}

impl Run {
    /// Checks the run and starts recorder and lanes, which wait for Go.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub(crate) fn prepare(
        prepare: Prepare,
        spool: PathBuf,
        probing: Arc<Probing>,
    ) -> Result<Self, PrepareError> {
        let spec = &prepare.spec;
        spec.check()?;
        let name = prepare
            .agents
            .get(usize::from(prepare.index))
            .ok_or(PrepareError::NoAgent)?
            .clone();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let codes = Codes::default();
        let lanes = lanes_for(spec);
        let config = RecorderConfig {
            directory: spool.clone(),
            agent: name,
            run: spec.run.clone(),
            experiment: spec.experiment.clone(),
            names: names(spec, &prepare.agents),
            codes: codes.clone(),
            keep: spec.keep,
            lanes,
            queue: MAX_BATCHES,
        };
        let origin = config.origin();
        let (recorder, sinks) = Recorder::start(config)?;
        let sinks = sinks
            .into_iter()
            .map(|sink| Box::new(Lane(sink)) as Box<dyn Sink>)
            .collect();
        let (sender, events) = mpsc::sync_channel(MAX_EVENTS);
        let portions = portions(&prepare)?;
        let idle = portions.workloads.iter().all(Option::is_none);
        match Drive::prepare(
            Arc::new(spec.clone()),
            portions,
            lanes,
            clock.clone(),
            codes,
            sinks,
            sender,
        ) {
            Ok(drive) => {
                probing.record(&spool, &origin);
                Ok(Self {
                    drive: Arc::new(drive),
                    clock,
                    origin,
                    prepare,
                    spool,
                    probing,
                    parts: Some((recorder, events, lanes)),
                    watching: idle.then(mpsc::channel),
                    closing: None,
                })
            }
            Err(error) => {
                recorder.finish();
                Err(error.into())
            }
        }
    }

    /// Starts the load at `t0_raw_ns` of the agent's clock. The end of the run is sent over `line`.
    pub(crate) fn go(&mut self, t0_raw_ns: i64, line: &Line) {
        let Some((recorder, events, lanes)) = self.parts.take() else {
            return;
        };
        self.drive.go(t0_raw_ns);
        let monitor = self.monitor(t0_raw_ns, line);
        self.close(recorder, events, lanes, monitor, line);
    }

    /// Stops the start of transactions. Before Go this ends the run at once with zero counts.
    pub(crate) fn stop(&mut self, line: &Line) {
        self.drive.stop();
        self.watching = None;
        if let Some((recorder, events, lanes)) = self.parts.take() {
            self.close(recorder, events, lanes, Ok(None), line);
        }
    }

    /// Whether the run is not yet complete.
    pub(crate) fn is_active(&self) -> bool {
        self.parts.is_some()
            || self
                .closing
                .as_ref()
                .is_some_and(|closing| !closing.is_finished())
    }

    /// The drain: the time in which transactions in progress may end.
    pub(crate) fn drain(&self) -> Duration {
        Duration::from_nanos(self.prepare.spec.drain_ns)
    }

    /// Waits until the run is complete.
    pub(crate) fn join(self) {
        if let Some(closing) = self.closing {
            let _ = closing.join();
        }
    }

    /// Ends the run without a controller. Waits for at most `max_wait` until the segments are
    /// closed.
    pub(crate) fn abandon(mut self, max_wait: Duration) {
        self.drive.stop();
        self.watching = None;
        drop(self.parts.take());
        let Some(closing) = self.closing.take() else {
            return;
        };
        let since = Instant::now();
        while !closing.is_finished() && since.elapsed() < max_wait {
            std::thread::sleep(Duration::from_millis(20));
        }
        if !closing.is_finished() {
            // The lanes may need as long as the drain, so the process ends without waiting for
            // them.
            std::mem::forget(self.drive);
        }
    }

    fn monitor(&self, t0_raw_ns: i64, line: &Line) -> io::Result<Option<MonitorThread>> {
        let config = MonitorConfig {
            directory: self.spool.clone(),
            origin: self.origin.clone(),
            watch: self.prepare.spec.watch.clone(),
            sought: self.prepare.watch.clone(),
            ceiling: self.prepare.spec.ceiling.clone(),
            t0_raw_ns,
        };
        let drive = Arc::downgrade(&self.drive);
        let spun = move || drive.upgrade().map_or(0, |drive| drive.spun_ns());
        let line = line.clone();
        let host = self.origin.agent.clone();
        let report = move |raw_ns: i64, event: &MonitorEvent| {
            let (kind, text) = match event {
                MonitorEvent::ServiceGone(name) => (
                    "service-gone",
                    format!("the process of service \"{name}\" has ended"),
                ),
                MonitorEvent::WatchLost(text) => ("watch-lost", format!("{host}: {text}")),
                MonitorEvent::WatchFound(text) => ("watch-found", format!("{host}: {text}")),
                MonitorEvent::CeilingReached(text) => ("ceiling", text.clone()),
            };
            let _ = line.send(&ToController::Note {
                t_ns: raw_ns - t0_raw_ns,
                kind: kind.into(),
                text,
            });
        };
        MonitorThread::start(config, self.clock.clone(), spun, report).map(Some)
    }

    /// Starts the thread that forwards the events of the lanes, and completes the run when all
    /// lanes have ended.
    fn close(
        &mut self,
        recorder: Recorder,
        events: Receiver<DriveEvent>,
        lanes: usize,
        monitor: io::Result<Option<MonitorThread>>,
        line: &Line,
    ) {
        let drive = self.drive.clone();
        let probing = self.probing.clone();
        let agent = self.origin.agent.clone();
        let stopped = self
            .watching
            .as_mut()
            .map(|(_, stopped)| std::mem::replace(stopped, mpsc::channel().1));
        let sending = line.clone();
        let work = move || {
            let failure = || {
                recorder
                    .trouble()
                    .map(|text| format!("agent {agent} has stopped recording: {text}"))
            };
            let lanes = forward_events(&events, lanes, &sending, failure);
            if let Some(stopped) = stopped {
                let _ = stopped.recv(); // returns when the sender is dropped
            }
            let lookups = drive.lookups().to_vec();
            drop(drive);
            let recording = recorder.finish();
            let (monitor, monitor_error) = match monitor {
                Ok(monitor) => (monitor.map(MonitorThread::finish).unwrap_or_default(), None),
                Err(error) => {
                    let damage = format!("cannot start the monitor: {error}");
                    (MonitorTotals::default(), Some(damage))
                }
            };
            let window_ns = lanes.window_ns;
            let mut totals = agent_totals(lanes, recording, monitor);
            totals.damage.extend(monitor_error);
            totals.lookups = lookups;
            let (probes, probe_error) = probing.finish();
            totals.segments.extend(probes);
            totals.damage.extend(probe_error);
            let _ = sending.send(&ToController::Finished { totals, window_ns });
        };
        match std::thread::Builder::new().name("books".into()).spawn(work) {
            Ok(thread) => self.closing = Some(thread),
            Err(error) => {
                let damage = vec![format!("cannot start the thread that completes the run: {error}")];
                let totals = AgentTotals {
                    damage,
                    ..AgentTotals::default()
                };
                let _ = line.send(&ToController::Finished { totals, window_ns: 0 });
            }
        }
    }
}

/// The parts of this agent in the workloads and in the budget.
fn portions(prepare: &Prepare) -> Result<Portions, PrepareError> {
    if prepare.portions.len() != prepare.spec.workloads.len() {
        return Err(PrepareError::Portions);
    }
    let agent_portion = |portion: &Portion| AgentPortion {
        agent: portion.index,
        agents: portion.of.max(1),
    };
    Ok(Portions {
        agent: prepare.index,
        workloads: prepare
            .portions
            .iter()
            .map(|portion| portion.as_ref().map(agent_portion))
            .collect(),
        budget: agent_portion(&prepare.budget),
    })
}

/// The final counts of the agent, from lanes, recorder and monitor.
fn agent_totals(lanes: Lanes, recording: RecordingTotals, monitor: MonitorTotals) -> AgentTotals {
    let mut totals = AgentTotals {
        counters: lanes.counters,
        in_flight: lanes.in_flight,
        segments: recording.segments,
        damage: lanes.damage,
        monitor_cpu_ns: monitor.cpu_ns,
        lookups: Vec::new(),
    };
    if totals.counters.lost_records > 0 {
        let lost = totals.counters.lost_records;
        totals.damage.push(format!(
            "the queue of the recorder was full, {} records are lost: the disk or the core is too slow",
            grouped(lost)
        ));
    }
    totals.counters.lost_records += recording.discarded;
    totals.segments.extend(monitor.segments);
    totals
        .damage
        .extend(recording.damage.into_iter().chain(monitor.damage));
    totals
}

/// The sum over all lanes.
struct Lanes {
    counters: Counters,
    in_flight: u64,
    window_ns: i64,
    damage: Vec<String>,
}

/// Forwards seconds, notes and failures of the recorder until all lanes have ended.
fn forward_events(
    events: &Receiver<DriveEvent>,
    lanes: usize,
    line: &Line,
    failure: impl Fn() -> Option<String>,
) -> Lanes {
    let mut sum = Lanes {
        counters: Counters::default(),
        in_flight: 0,
        window_ns: 0,
        damage: Vec::new(),
    };
    let mut merger = SecondMerger::new(lanes);
    let mut living = lanes;
    let mut now_ns = 0;
    while living > 0 {
        match events.recv_timeout(Duration::from_secs(1)) {
            Ok(DriveEvent::Second { lane, report }) => {
                if let Err(error) = merger.add(lane, &report) {
                    sum.damage
                        .push(format!("second {} of lane {lane}: {error}", report.second));
                }
            }
            Ok(DriveEvent::Note { t_ns, kind, text }) => {
                let _ = line.send(&ToController::Note {
                    t_ns,
                    kind: kind.into(),
                    text,
                });
            }
            Ok(DriveEvent::LaneEnded {
                lane,
                counters,
                in_flight,
                window_ns,
            }) => {
                sum.counters.add(&counters);
                sum.in_flight += in_flight;
                sum.window_ns = sum.window_ns.max(window_ns);
                merger.end(lane);
                living -= 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                sum.damage.push(format!(
                    "{living} lanes ended without a report: please report this"
                ));
                (0..lanes).for_each(|lane| merger.end(lane));
                living = 0;
            }
        }
        while let Some((report, _)) = merger.take() {
            now_ns = (i64::from(report.second) + 1) * 1_000_000_000;
            let _ = line.send(&ToController::Second(report));
        }
        if let Some(text) = failure() {
            let _ = line.send(&ToController::Note {
                t_ns: now_ns,
                kind: "not-recorded".into(),
                text,
            });
        }
    }
    sum
}

/// The names of the indices in transactions, as [`plimsoll_model::Transaction`] defines them.
fn names(spec: &RunSpec, agents: &[String]) -> Names {
    let workloads = spec.workloads.iter();
    Names {
        agents: agents.to_vec(),
        workloads: workloads.clone().map(|workload| workload.name.clone()).collect(),
        operations: workloads
            .clone()
            .flat_map(|w| w.operations.iter().map(|o| o.name.clone()))
            .collect(),
        endpoints: workloads
            .flat_map(|w| w.endpoints.iter().map(|e| e.name.clone()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_records_are_damage() {
        let counters = Counters {
            started: 100,
            succeeded: 100,
            lost_records: 30,
            ..Counters::default()
        };
        let lanes = Lanes {
            counters,
            in_flight: 0,
            window_ns: 0,
            damage: Vec::new(),
        };
        let recording = RecordingTotals {
            discarded: 5,
            damage: vec!["the disk does not answer".into()],
            ..RecordingTotals::default()
        };
        let totals = agent_totals(lanes, recording, MonitorTotals::default());
        assert_eq!(totals.counters.lost_records, 35);
        assert_eq!(totals.damage.len(), 2, "{:?}", totals.damage);
        assert!(totals.damage[0].contains("30 records are lost"));
        assert!(totals.damage[1].contains("does not answer"));
    }
}
