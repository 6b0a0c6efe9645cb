//! The monitor's own thread: reads once a second on the seconds of the run, writes samples and
//! clock readings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_clock::Clock;
use plimsoll_model::{HostWatch, Watch};
use plimsoll_record::segment::Origin;
use plimsoll_record::{ClockReading, RecordError, Sample, SideWriter};

use crate::{Monitor, MonitorEvent};

/// A last, shorter interval is worth a sample if it is at least this long.
const MIN_NS: i64 = 200_000_000;

/// How long [`MonitorThread::finish`] waits for a disk that does not answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What to watch and where to write.
pub struct MonitorConfig {
    /// Directory of the segments; it exists.
    pub directory: PathBuf,
    /// Whose samples they are.
    pub origin: Origin,
    /// Process trees of services.
    pub watch: Vec<Watch>,
    /// Process trees of others, which may come and go.
    pub sought: Vec<HostWatch>,
    /// Zero of the run on the raw clock, ns.
    pub t0_raw_ns: i64,
}

/// What the monitor did.
#[derive(Debug, Default)]
pub struct MonitorBooks {
    /// Names of the files written.
    pub segments: Vec<String>,
    /// What went wrong; empty when nothing did.
    pub damage: Vec<String>,
    /// CPU time of the monitor itself, ns.
    pub cpu_ns: u64,
}

/// Owner of the thread.
pub struct MonitorThread {
    stop: Sender<()>,
    thread: JoinHandle<MonitorBooks>,
}

impl MonitorThread {
    /// Starts it. `spun` tells what the testers have spun so far (ns); `tell` is told, with its raw
    /// time, what happens to processes.
    ///
    /// # Errors
    /// No thread is to be had.
    pub fn start(
        config: MonitorConfig,
        clock: Arc<dyn Clock>,
        spun: impl Fn() -> u64 + Send + 'static,
        tell: impl Fn(i64, &MonitorEvent) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("monitor".into())
            .spawn(move || {
                let t0 = config.t0_raw_ns;
                let mut watching = Watching::new(&config, clock.clone());
                // The first reading is the base of the first second's rates.
                let ended = wait(&stopped, (t0 - clock.raw_ns()).max(0));
                watching.read(&spun, &tell);
                if ended {
                    return watching.close();
                }
                let mut second = 0;
                loop {
                    // Counted, not read off the clock: a timer may end a few µs early on the raw
                    // clock. Seconds that were slept through are left out.
                    second = (second + 1).max((clock.raw_ns() - t0) / 1_000_000_000);
                    let ended = wait(&stopped, (t0 + second * 1_000_000_000 - clock.raw_ns()).max(0));
                    if !ended || clock.raw_ns() - watching.last_ns >= MIN_NS {
                        watching.read(&spun, &tell);
                    }
                    if ended {
                        return watching.close();
                    }
                }
            })?;
        Ok(Self { stop, thread })
    }

    /// Takes a last reading and closes the files.
    pub fn finish(self) -> MonitorBooks {
        let _ = self.stop.send(());
        let since = Instant::now();
        while !self.thread.is_finished() {
            if since.elapsed() > TIMEOUT {
                // It cannot be joined; it ends with the process.
                return MonitorBooks {
                    damage: vec![format!(
                        "the monitor did not finish within {} s: the disk does not answer",
                        TIMEOUT.as_secs()
                    )],
                    ..MonitorBooks::default()
                };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.thread.join().unwrap_or_else(|_| MonitorBooks {
            damage: vec!["the monitor's thread broke off: please report this".into()],
            ..MonitorBooks::default()
        })
    }
}

/// Waits so long; true when it is time to end.
fn wait(stopped: &Receiver<()>, ns: i64) -> bool {
    !matches!(
        stopped.recv_timeout(Duration::from_nanos(ns as u64)),
        Err(RecvTimeoutError::Timeout)
    )
}

struct Watching {
    monitor: Monitor,
    clock: Arc<dyn Clock>,
    samples: Option<SideWriter<Sample>>,
    readings: Option<SideWriter<ClockReading>>,
    books: MonitorBooks,
    component: Arc<str>,
    part: Arc<str>,
    last_ns: i64,
}

impl Watching {
    fn new(config: &MonitorConfig, clock: Arc<dyn Clock>) -> Self {
        Self {
            monitor: Monitor::new(&config.watch, &config.sought, std::process::id()),
            clock,
            samples: Some(SideWriter::new(&config.directory, &config.origin)),
            readings: Some(SideWriter::new(&config.directory, &config.origin)),
            books: MonitorBooks {
                cpu_ns: own_cpu_ns(),
                ..MonitorBooks::default()
            },
            component: "monitor".into(),
            part: "".into(),
            last_ns: 0,
        }
    }

    fn read(&mut self, spun: &dyn Fn() -> u64, tell: &dyn Fn(i64, &MonitorEvent)) {
        let now_ns = self.clock.raw_ns();
        let clocks = ClockReading {
            raw_ns: now_ns,
            monotonic_ns: self.clock.monotonic_ns(),
            realtime_ns: self.clock.realtime_ns(),
        };
        let mut reading = self.monitor.read(now_ns, spun());
        for event in &reading.events {
            tell(now_ns, event);
        }
        let cpu_ns = own_cpu_ns();
        if self.last_ns != 0 {
            let value = cpu_ns.saturating_sub(self.books.cpu_ns) as f64 / (now_ns - self.last_ns) as f64;
            let (component, part) = (self.component.clone(), self.part.clone());
            reading.samples.push(Sample {
                t_ns: now_ns,
                component,
                metric: "cpu",
                part,
                value,
            });
        }
        self.books.cpu_ns = cpu_ns;
        self.last_ns = now_ns;
        keep(
            &mut self.samples,
            &mut self.books,
            |writer| writer.write(&reading.samples),
            SideWriter::finish,
        );
        keep(
            &mut self.readings,
            &mut self.books,
            |writer| writer.write(&[clocks]),
            SideWriter::finish,
        );
    }

    fn close(mut self) -> MonitorBooks {
        let ends = [
            self.samples.take().map(SideWriter::finish),
            self.readings.take().map(SideWriter::finish),
        ];
        for (names, sealed) in ends.into_iter().flatten() {
            self.books.segments.extend(names);
            self.books
                .damage
                .extend(sealed.err().map(|error| error.to_string()));
        }
        self.books.cpu_ns = own_cpu_ns();
        self.books
    }
}

/// Writes with `write`; a writer that fails is closed, said, and not used again: the run goes on.
fn keep<W>(
    writer: &mut Option<W>,
    books: &mut MonitorBooks,
    write: impl FnOnce(&mut W) -> Result<(), RecordError>,
    finish: impl FnOnce(W) -> (Vec<String>, Result<(), RecordError>),
) {
    let Some(open) = writer.as_mut() else { return };
    if let Err(error) = write(open) {
        books.damage.push(error.to_string());
        if let Some(open) = writer.take() {
            books.segments.extend(finish(open).0);
        }
    }
}

/// CPU time of this thread, ns; 0 where the kernel does not say.
fn own_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    crate::parse::on_core_ns(&text).unwrap_or(0)
}
