//! The thread of the monitor. It takes a reading at every second of the run, and writes samples and
//! clock readings.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_clock::Clock;
use plimsoll_model::{Ceiling, HostWatch, Watch};
use plimsoll_record::segment::Origin;
use plimsoll_record::{ClockReading, RecordError, Sample, SideWriter};

use crate::ceiling::MemoryCeilings;
use crate::{Monitor, MonitorEvent};

/// The last interval of a run is shorter than a second. It gets a sample if it is at least this
/// long.
const MIN_NS: i64 = 200_000_000;

/// Number of counts of the run queue per second.
const COUNTS_PER_SECOND: i64 = 3;

/// How long [`MonitorThread::finish`] waits for a disk that does not answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Configuration of a monitor for one run.
pub struct MonitorConfig {
    /// Directory for the segments. It must exist.
    pub directory: PathBuf,
    /// Run and agent of the segments.
    pub origin: Origin,
    /// Process trees of services of the experiment.
    pub watch: Vec<Watch>,
    /// Watched process trees, which may start and end during the run.
    pub sought: Vec<HostWatch>,
    /// Ceilings of the run. The monitor checks those of memory.
    pub ceiling: Vec<Ceiling>,
    /// Time zero of the run on `CLOCK_MONOTONIC_RAW`, ns.
    pub t0_raw_ns: i64,
}

/// Final report of a monitor.
#[derive(Debug, Default)]
pub struct MonitorTotals {
    /// Names of the segments written.
    pub segments: Vec<String>,
    /// Messages about samples that could not be written. Empty if there was no failure.
    pub damage: Vec<String>,
    /// CPU time of the monitor itself, ns.
    pub cpu_ns: u64,
}

/// Handle of a running monitor.
pub struct MonitorThread {
    stop: Sender<()>,
    thread: JoinHandle<MonitorTotals>,
}

impl MonitorThread {
    /// Starts the monitor. `spun` returns the total time for which lanes have spun, in ns. `report`
    /// receives each event with its time on the raw clock, in ns.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        config: MonitorConfig,
        clock: Arc<dyn Clock>,
        spun: impl Fn() -> u64 + Send + 'static,
        report: impl Fn(i64, &MonitorEvent) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("monitor".into())
            .spawn(move || {
                let t0 = config.t0_raw_ns;
                let mut recording = Recording::new(&config, clock.clone());
                // The rates of the first second are differences to this reading.
                let ended = wait(&stopped, (t0 - clock.raw_ns()).max(0));
                recording.read(&spun, &report);
                if ended {
                    return recording.close();
                }
                let mut second = 0;
                loop {
                    // The second is counted, not only read from the clock: a timer may expire a few
                    // µs early on the raw clock. Seconds during which the thread did not run are
                    // skipped.
                    second = (second + 1).max((clock.raw_ns() - t0) / 1_000_000_000);
                    let ended = recording.count_until(&stopped, t0, second);
                    if !ended || clock.raw_ns() - recording.last_ns >= MIN_NS {
                        recording.read(&spun, &report);
                    }
                    if ended {
                        return recording.close();
                    }
                }
            })?;
        Ok(Self { stop, thread })
    }

    /// Stops the monitor: it takes a last reading and closes its files. Waits for it for at most
    /// 20 s.
    pub fn finish(self) -> MonitorTotals {
        let _ = self.stop.send(());
        let since = Instant::now();
        while !self.thread.is_finished() {
            if since.elapsed() > TIMEOUT {
                // The thread cannot be joined. It ends with the process.
                return MonitorTotals {
                    damage: vec![format!(
                        "the monitor did not finish within {} s: the disk does not answer",
                        TIMEOUT.as_secs()
                    )],
                    ..MonitorTotals::default()
                };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.thread.join().unwrap_or_else(|_| MonitorTotals {
            damage: vec!["the monitor's thread panicked: please report this".into()],
            ..MonitorTotals::default()
        })
    }
}

/// Waits for `ns`, or until the monitor is stopped (true).
fn wait(stopped: &Receiver<()>, ns: i64) -> bool {
    !matches!(
        stopped.recv_timeout(Duration::from_nanos(ns as u64)),
        Err(RecvTimeoutError::Timeout)
    )
}

/// The time between a count and the end of its second, ns. The counts are at irregular times,
/// because testers that start at whole or half seconds would be counted too often at regular ones.
/// `index`: of the count in the run; `number`: how many follow it in its second; `phase`: of the
/// agent, from 0 to 1.
fn count_before_ns(index: i64, number: i64, phase: f64) -> i64 {
    /// Multiples of the golden ratio are spread evenly over an interval.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let fraction = (index as f64).mul_add(GOLDEN, phase).fract();
    ((number as f64 + fraction) * 1e9 / COUNTS_PER_SECOND as f64) as i64
}

/// The phase of the counts of an agent, from 0 to 1. The agents of emulated hosts share the cores
/// of one machine: if all counted at the same time, each would count the others.
fn phase_of(agent: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    agent.hash(&mut hasher);
    hasher.finish() as f64 / u64::MAX as f64
}

/// A monitor and its open files.
struct Recording {
    monitor: Monitor,
    phase: f64,
    ceilings: MemoryCeilings,
    clock: Arc<dyn Clock>,
    samples: Option<SideWriter<Sample>>,
    readings: Option<SideWriter<ClockReading>>,
    totals: MonitorTotals,
    component: Arc<str>,
    part: Arc<str>,
    last_ns: i64,
}

impl Recording {
    fn new(config: &MonitorConfig, clock: Arc<dyn Clock>) -> Self {
        Self {
            monitor: Monitor::new(&config.watch, &config.sought, std::process::id()),
            phase: phase_of(&config.origin.agent),
            ceilings: MemoryCeilings::new(&config.ceiling),
            clock,
            samples: Some(SideWriter::new(&config.directory, &config.origin)),
            readings: Some(SideWriter::new(&config.directory, &config.origin)),
            totals: MonitorTotals {
                cpu_ns: own_cpu_ns(),
                ..MonitorTotals::default()
            },
            component: "monitor".into(),
            part: "".into(),
            last_ns: 0,
        }
    }

    /// Waits for the end of a second of the run, and counts the tasks that are ready to run at
    /// times within it. Returns true if the monitor is stopped.
    fn count_until(&mut self, stopped: &Receiver<()>, t0_raw_ns: i64, second: i64) -> bool {
        let due = t0_raw_ns + second * 1_000_000_000;
        for number in (0..COUNTS_PER_SECOND).rev() {
            let left = due
                - count_before_ns(second * COUNTS_PER_SECOND + number, number, self.phase)
                - self.clock.raw_ns();
            if left <= 0 {
                continue;
            }
            if wait(stopped, left) {
                return true;
            }
            self.monitor.count_runnable();
        }
        wait(stopped, (due - self.clock.raw_ns()).max(0))
    }

    fn read(&mut self, spun: &dyn Fn() -> u64, report: &dyn Fn(i64, &MonitorEvent)) {
        let now_ns = self.clock.raw_ns();
        let clocks = ClockReading {
            raw_ns: now_ns,
            monotonic_ns: self.clock.monotonic_ns(),
            realtime_ns: self.clock.realtime_ns(),
        };
        let mut reading = self.monitor.read(now_ns, spun());
        for event in &reading.events {
            report(now_ns, event);
        }
        // The first reading is that of the start: no second has passed.
        if self.last_ns != 0
            && let Some(reason) = self.ceilings.add(&reading.samples)
        {
            report(now_ns, &MonitorEvent::CeilingReached(reason));
        }
        let cpu_ns = own_cpu_ns();
        if self.last_ns != 0 {
            let value = cpu_ns.saturating_sub(self.totals.cpu_ns) as f64 / (now_ns - self.last_ns) as f64;
            let (component, part) = (self.component.clone(), self.part.clone());
            reading.samples.push(Sample {
                t_ns: now_ns,
                component,
                metric: "cpu",
                part,
                value,
            });
        }
        self.totals.cpu_ns = cpu_ns;
        self.last_ns = now_ns;
        write_or_close(
            &mut self.samples,
            &mut self.totals,
            |writer| writer.write(&reading.samples),
            SideWriter::finish,
        );
        write_or_close(
            &mut self.readings,
            &mut self.totals,
            |writer| writer.write(&[clocks]),
            SideWriter::finish,
        );
    }

    fn close(mut self) -> MonitorTotals {
        let ends = [
            self.samples.take().map(SideWriter::finish),
            self.readings.take().map(SideWriter::finish),
        ];
        for (names, sealed) in ends.into_iter().flatten() {
            self.totals.segments.extend(names);
            self.totals
                .damage
                .extend(sealed.err().map(|error| error.to_string()));
        }
        self.totals.cpu_ns = own_cpu_ns();
        self.totals
    }
}

/// Writes with `write`. If that fails, the error is added to `totals`, and the writer is closed. A
/// failure of the monitor does not stop the run.
fn write_or_close<W>(
    writer: &mut Option<W>,
    totals: &mut MonitorTotals,
    write: impl FnOnce(&mut W) -> Result<(), RecordError>,
    finish: impl FnOnce(W) -> (Vec<String>, Result<(), RecordError>),
) {
    let Some(open) = writer.as_mut() else { return };
    if let Err(error) = write(open) {
        totals.damage.push(error.to_string());
        if let Some(open) = writer.take() {
            totals.segments.extend(finish(open).0);
        }
    }
}

/// CPU time of this thread in ns, 0 if the kernel does not report it.
fn own_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    crate::parse::on_core_ns(&text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_on_one_machine_count_at_different_times() {
        let agents: Vec<_> = (1..=8).map(|host| format!("far-{host}")).collect();
        let mut offsets: Vec<i64> = agents
            .iter()
            .map(|agent| count_before_ns(7, 0, phase_of(agent)))
            .collect();
        offsets.sort_unstable();
        let apart = offsets.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
        assert!(apart > 500_000, "{offsets:?}");
        for (number, index) in (0..COUNTS_PER_SECOND).zip(90..) {
            let before = count_before_ns(index, number, phase_of("far-1"));
            let third = 1_000_000_000 / COUNTS_PER_SECOND;
            assert!(
                (third * number..=third * (number + 1)).contains(&before),
                "{before}"
            );
        }
    }
}
