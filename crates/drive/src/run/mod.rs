//! The part of a run on this host: prepares the drivers and owns the threads of the lanes.
//!
//! `plan` compiles the workloads to populations, `arrivals` contains the arrivals of an open load,
//! which the lanes share, and `host` calls the operating system for cores, threads and limits.

pub mod arrivals;
pub(crate) mod host;
pub mod plan;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::JoinHandle;

use plimsoll_clock::Clock;
use plimsoll_model::{Codes, NameLookup, RunEnd, RunSpec, Workload, grouped};
use plimsoll_schedule::UsedValues;

use self::arrivals::{Arrivals, Pool};
use self::plan::{Population, populations};
use crate::api::{DriveError, DriveEvent, Portions, Sink};
use crate::driver::Setup;
use crate::drivers::registry::{self, PreparedDriver};
use crate::lane::blocking_pool::{self, BlockingPool, BlockingPoolSetup, ErasedBlockingDriver};
use crate::lane::reactor::Reactor;
use crate::lane::stats::{ActiveTester, LaneStats};
use crate::lane::{self, ErasedAsyncDriver, LaneSetup};
use crate::tester::control::Control;
use crate::tester::policy::TesterSlot;

/// Number of open files that the process needs in addition to those of its testers.
const OTHER_FILES: u64 = 64;
/// Number of open files that a blocking tester needs: enough for the pipes and the pidfd of a
/// program.
const FILES_OF_A_PROGRAM: u64 = 6;
/// Number of open files that the work of a session needs: those of a program, and one that stops
/// it.
const FILES_OF_WORK: u64 = FILES_OF_A_PROGRAM + 1;

/// Number of lanes, and so of sinks, that [`Drive::prepare`] needs on this host: one per core that
/// testers may use, but at most one per tester, and one more for all blocking testers. An unknown
/// driver counts as async.
pub fn lanes_for(spec: &RunSpec) -> usize {
    let all = populations(spec);
    let tasks: u64 = all
        .iter()
        .zip(&spec.workloads)
        .filter(|(_, workload)| !registry::blocks(workload))
        .map(|(population, _)| u64::from(population.closed()) + u64::from(population.slots()))
        .sum();
    let cores = cores_of(spec).len().max(1) as u64;
    tasks.min(cores) as usize + usize::from(spec.workloads.iter().any(registry::blocks))
}

fn cores_of(spec: &RunSpec) -> Vec<u32> {
    if spec.tester_cpus.is_empty() {
        host::cores()
    } else {
        spec.tester_cpus.clone()
    }
}

/// The part of a run on this host, which owns the threads of the lanes. Dropping it stops the run
/// and waits for its end.
pub struct Drive {
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    lanes: Vec<JoinHandle<()>>,
    threads: Vec<(String, i32)>,
    spun_ns: Arc<AtomicU64>,
    lookups: Vec<NameLookup>,
}

/// The inputs from which every lane is created.
struct Common {
    spec: Arc<RunSpec>,
    portions: Portions,
    clock: Arc<dyn Clock>,
    codes: Codes,
    control: Arc<Control>,
    events: SyncSender<DriveEvent>,
    populations: Vec<Arc<Population>>,
    /// Per workload, its arrivals on this agent.
    pools: Vec<Option<Pool>>,
    spun_ns: Arc<AtomicU64>,
    ready: Sender<Result<(String, i32), DriveError>>,
}

impl Drive {
    /// Checks settings, templates, files, TLS and host names, opens no connection, and starts the
    /// threads, which wait for [`Drive::go`]. `sinks` contains one sink per lane ([`lanes_for`]).
    ///
    /// The receiver of `events` should hold a few hundred events and be read continuously. A lane
    /// does not wait for it during the load, but waits for it to send its last events.
    pub fn prepare(
        spec: Arc<RunSpec>,
        portions: Portions,
        lanes: usize,
        clock: Arc<dyn Clock>,
        codes: Codes,
        sinks: Vec<Box<dyn Sink>>,
        events: SyncSender<DriveEvent>,
    ) -> Result<Self, DriveError> {
        spec.check()?;
        let populations = populations(&spec);
        let lookups = RefCell::default();
        let drivers = prepare_drivers(&spec, &populations, &codes, &lookups)?;
        check_resources(&portions, &populations, &drivers)?;
        let control = Arc::new(Control::new(&spec, portions.budget));
        let (ready, started) = mpsc::channel();
        let spun_ns = Arc::new(AtomicU64::new(0));
        let mut drive = Self {
            control: Arc::clone(&control),
            clock: Arc::clone(&clock),
            lanes: Vec::new(),
            threads: Vec::new(),
            spun_ns: Arc::clone(&spun_ns),
            lookups: lookups.into_inner(),
        };
        let pools = populations
            .iter()
            .zip(&portions.workloads)
            .map(|(population, &portion)| Pool::new(population, portion?, spec.seed))
            .collect();
        let common = Common {
            spec,
            portions,
            clock,
            codes,
            control,
            events,
            populations,
            pools,
            spun_ns,
            ready,
        };
        drive.start(&common, &drivers, lanes, sinks)?;
        drop(common);
        // Every thread has a sender until it is ready or has failed, so that this loop ends then.
        for thread in started {
            drive.threads.push(thread?);
        }
        Ok(drive)
    }

    fn start(
        &mut self,
        common: &Common,
        drivers: &[PreparedDriver],
        lanes: usize,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Result<(), DriveError> {
        let has_pool = drivers
            .iter()
            .any(|driver| matches!(driver, PreparedDriver::Blocking(_)));
        let has_tasks = drivers
            .iter()
            .any(|driver| matches!(driver, PreparedDriver::Async(_)));
        let min_lanes = usize::from(has_pool) + usize::from(has_tasks);
        if lanes < min_lanes || sinks.len() != lanes {
            return Err(DriveError::TooMany(format!(
                "expected at least {min_lanes} lanes and as many sinks, got {lanes} lanes and {} sinks",
                sinks.len()
            )));
        }
        let task_lanes = lanes - usize::from(has_pool);
        for (index, sink) in sinks.into_iter().enumerate() {
            let handle = if index < task_lanes {
                start_lane(common, drivers, index, task_lanes, sink)?
            } else {
                start_pool(common, drivers, index, sink)?
            };
            self.lanes.push(handle);
        }
        Ok(())
    }

    /// Sets the start of the run (raw, ns), which should be slightly in the future. An agent that
    /// joins a run late passes a time in the past.
    pub fn go(&self, t0_raw_ns: i64) {
        self.control.go(t0_raw_ns, self.clock.raw_ns());
    }

    /// Stops the run now: no transactions start any more. Those in progress may end within
    /// `drain_ns`, and are then cancelled.
    pub fn stop(&self) {
        self.control.stop(self.clock.raw_ns());
    }

    /// Waits until all lanes have ended and sent their [`DriveEvent::LaneEnded`]. Another thread
    /// must read the receiver of the events.
    pub fn join(mut self) {
        self.wait();
    }

    fn wait(&mut self) {
        for lane in self.lanes.drain(..) {
            // A panic in a lane was caught there and has become a note.
            let _ = lane.join();
        }
        self.control.join_stopped_work();
    }

    /// Names and kernel ids of the threads of lanes and blocking testers, for the monitor.
    pub fn thread_ids(&self) -> Vec<(String, i32)> {
        self.threads.clone()
    }

    /// Lookups of host names, in order.
    pub fn lookups(&self) -> &[NameLookup] {
        &self.lookups
    }

    /// Time for which the lanes have spun instead of slept so far, summed over the lanes, ns. It is
    /// CPU time, but not load.
    pub fn spun_ns(&self) -> u64 {
        self.spun_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // Also if some threads could not be started: the others wait for the start of the run.
        self.stop();
        self.wait();
    }
}

fn prepare_drivers(
    spec: &RunSpec,
    all: &[Arc<Population>],
    codes: &Codes,
    lookups: &RefCell<Vec<NameLookup>>,
) -> Result<Vec<PreparedDriver>, DriveError> {
    let make = |(workload, population): (&Workload, &Arc<Population>)| {
        let setup = Setup {
            settings: &workload.settings,
            requests: workload
                .operations
                .iter()
                .map(|operation| &operation.request)
                .collect(),
            endpoints: &workload.endpoints,
            values: &population.values,
            codes,
            seed: spec.seed,
            workload: u64::from(population.workload),
            used: RefCell::new(vec![UsedValues::default(); workload.operations.len()]),
            lookups,
        };
        let name = &workload.name;
        match registry::make(&workload.driver, setup) {
            Some(Ok(driver)) => {
                if spec.end
                    == (RunEnd {
                        each_tester: spec.end.each_tester,
                        ..RunEnd::default()
                    })
                    && population.curve.is_some()
                {
                    return Err(DriveError::Endless {
                        workload: name.clone(),
                        driver: workload.driver.clone(),
                    });
                }
                Ok(driver)
            }
            Some(Err(error)) => Err(DriveError::Driver {
                workload: name.clone(),
                driver: workload.driver.clone(),
                source: Box::new(error),
            }),
            None => Err(DriveError::UnknownDriver {
                workload: name.clone(),
                driver: workload.driver.clone(),
                known: registry::drivers()
                    .map(|info| info.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    };
    spec.workloads.iter().zip(all).map(make).collect()
}

fn check_resources(
    of: &Portions,
    all: &[Arc<Population>],
    drivers: &[PreparedDriver],
) -> Result<(), DriveError> {
    let (mut threads, mut files) = (0, OTHER_FILES);
    for ((population, driver), portion) in all.iter().zip(drivers).zip(&of.workloads) {
        let Some(portion) = *portion else { continue };
        let testers = (Population::members(population.closed(), portion, 0, 1).count()
            + Population::members(population.slots(), portion, 0, 1).count()) as u64;
        let is_blocking = matches!(driver, PreparedDriver::Blocking(_));
        let works = population
            .session
            .as_ref()
            .is_some_and(|session| session.busy || !session.start.is_empty());
        threads += testers * (u64::from(is_blocking) + u64::from(works));
        let driver_files = match driver {
            PreparedDriver::Async(driver) => driver.files(),
            PreparedDriver::Blocking(_) => FILES_OF_A_PROGRAM,
        };
        files += testers * (driver_files + if works { FILES_OF_WORK } else { 0 });
    }
    if threads > u64::from(blocking_pool::MAX_BLOCKING_TESTERS) {
        return Err(DriveError::TooMany(format!(
            "testers on one host need {} threads, and at most {} are allowed: a tester of a blocking driver (sql \
             with SQLite, exec, replay) is a thread, and a session that computes or starts a program needs one. \
             Use fewer testers, an open load with fewer slots, or more hosts",
            grouped(threads),
            grouped(blocking_pool::MAX_BLOCKING_TESTERS.into())
        )));
    }
    let limit = host::raise_open_files();
    if files > limit {
        return Err(DriveError::TooMany(format!(
            "the testers need {} open files, but the limit is {}: raise it with `ulimit -n {files}`",
            grouped(files),
            grouped(limit)
        )));
    }
    Ok(())
}

/// The lane's view of the arrivals of every workload that `is_mine` selects.
fn arrivals(
    common: &Common,
    is_mine: impl Fn(usize) -> bool,
    lane: usize,
    lanes: usize,
) -> Vec<Option<Arrivals>> {
    let pools = common.pools.iter().enumerate();
    pools
        .map(|(index, pool)| Some(pool.as_ref().filter(|_| is_mine(index))?.lane(lane, lanes)))
        .collect()
}

/// The closed testers and the slots of a population on a lane.
fn slots(common: &Common, population: &Arc<Population>, lane: usize, lanes: usize) -> Vec<TesterSlot> {
    let slot = |number, is_open| TesterSlot {
        population: Arc::clone(population),
        number,
        is_open,
        member: 0,
        seed: common.spec.seed,
        quota: if is_open {
            None
        } else {
            common.spec.end.each_tester
        },
    };
    let workload = usize::from(population.workload);
    let Some(portion) = common.portions.workloads.get(workload).copied().flatten() else {
        return Vec::new();
    };
    let closed = Population::members(population.closed(), portion, lane, lanes);
    let slots = Population::members(population.slots(), portion, lane, lanes);
    closed
        .map(|number| slot(number, false))
        .chain(slots.map(|number| slot(number, true)))
        .collect()
}

fn stats<D: ?Sized>(
    common: &Common,
    lane: usize,
    slots: &mut [(TesterSlot, Arc<D>)],
    sink: Box<dyn Sink>,
) -> LaneStats {
    let mut members = Vec::new();
    for (member, (slot, _)) in slots.iter_mut().enumerate() {
        slot.member = member;
        let population = Arc::clone(&slot.population);
        members.push(ActiveTester {
            population,
            number: slot.number,
            is_open: slot.is_open,
            has_ended: false,
        });
    }
    LaneStats::new(lane, common.portions.agent, members, sink, common.events.clone())
}

fn system(what: &str) -> impl Fn(std::io::Error) -> DriveError {
    move |error| DriveError::System {
        what: what.to_owned(),
        error,
    }
}

fn start_lane(
    common: &Common,
    drivers: &[PreparedDriver],
    lane: usize,
    lanes: usize,
    sink: Box<dyn Sink>,
) -> Result<JoinHandle<()>, DriveError> {
    let mut all: Vec<(TesterSlot, Arc<dyn ErasedAsyncDriver>)> = Vec::new();
    for (population, prepared) in common.populations.iter().zip(drivers) {
        if let PreparedDriver::Async(driver) = prepared {
            all.extend(
                slots(common, population, lane, lanes)
                    .into_iter()
                    .map(|slot| (slot, Arc::clone(driver))),
            );
        }
    }
    let stats = stats(common, lane, &mut all, sink);
    let is_mine = |index: usize| matches!(drivers[index], PreparedDriver::Async(_));
    let setup = LaneSetup {
        spec: Arc::clone(&common.spec),
        control: Arc::clone(&common.control),
        clock: Arc::clone(&common.clock),
        codes: common.codes.clone(),
        stats,
        arrivals: arrivals(common, is_mine, lane, lanes),
        slots: all,
    };
    let core = (!common.spec.tester_cpus.is_empty())
        .then(|| common.spec.tester_cpus[lane % common.spec.tester_cpus.len()]);
    let (ready, spun) = (common.ready.clone(), Arc::clone(&common.spun_ns));
    let name = format!("lane-{lane}");
    let work = move || {
        host::no_timer_slack();
        let bound = core
            .map_or(Ok(()), |core| host::bind(&[core]))
            .map_err(|error| DriveError::System {
                what: format!(
                    "bind a thread of the load generator to core {}",
                    core.unwrap_or(0)
                ),
                error,
            });
        let (clock, spin_ns) = (Arc::clone(&setup.clock), setup.spec.spin_ns);
        let io = bound.and_then(|()| {
            Reactor::new(clock, spin_ns, spun)
                .map_err(system("open the descriptors of a thread of the load generator"))
        });
        match io {
            Ok(io) => {
                let alarm = io.alarm();
                setup.control.on_change(move || alarm.ring());
                let _ = ready.send(Ok((format!("lane-{lane}"), host::thread_id())));
                drop(ready);
                lane::run(&io, setup);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        }
    };
    std::thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(system("start a thread"))
}

fn start_pool(
    common: &Common,
    drivers: &[PreparedDriver],
    lane: usize,
    sink: Box<dyn Sink>,
) -> Result<JoinHandle<()>, DriveError> {
    let mut all: Vec<(TesterSlot, Arc<dyn ErasedBlockingDriver>)> = Vec::new();
    for (population, prepared) in common.populations.iter().zip(drivers) {
        if let PreparedDriver::Blocking(driver) = prepared {
            all.extend(
                slots(common, population, 0, 1)
                    .into_iter()
                    .map(|slot| (slot, Arc::clone(driver))),
            );
        }
    }
    let stats = stats(common, lane, &mut all, sink);
    let is_mine = |index: usize| matches!(drivers[index], PreparedDriver::Blocking(_));
    let pool = BlockingPool::new(BlockingPoolSetup {
        spec: Arc::clone(&common.spec),
        control: Arc::clone(&common.control),
        clock: Arc::clone(&common.clock),
        codes: common.codes.clone(),
        stats,
        arrivals: arrivals(common, is_mine, 0, 1),
        members: all.len(),
    })
    .map_err(system("open the descriptor for cancelling blocking testers"))?;
    let mut threads = Vec::new();
    for (slot, driver) in all {
        let (name, ready) = (format!("tester-{}", slot.tester()), common.ready.clone());
        let cores = common.spec.tester_cpus.clone();
        let set_up = move || {
            host::no_timer_slack();
            let bound = if cores.is_empty() {
                Ok(())
            } else {
                host::bind(&cores)
            };
            bound.map_err(system("bind a tester to its cores"))
        };
        let workload = &common.spec.workloads[usize::from(slot.population.workload)];
        let (workload, driver_name) = (workload.name.clone(), workload.driver.clone());
        let driver_error = move |error| DriveError::Driver {
            workload,
            driver: driver_name,
            source: Box::new(error),
        };
        let ready = move |result: Result<(), DriveError>| {
            let _ = ready.send(result.map(|()| (name, host::thread_id())));
        };
        let thread = pool.start_tester(slot, driver, set_up, driver_error, ready);
        threads.push(thread.map_err(system("start the thread of a tester"))?);
    }
    let blocking = |prepared: &PreparedDriver| match prepared {
        PreparedDriver::Blocking(driver) => Some(Arc::clone(driver)),
        PreparedDriver::Async(_) => None,
    };
    let drivers: Vec<Arc<dyn ErasedBlockingDriver>> = drivers.iter().filter_map(blocking).collect();
    let (control, ready) = (Arc::clone(&common.control), common.ready.clone());
    let work = move || {
        let leader = std::thread::current();
        control.on_change(move || leader.unpark());
        let _ = ready.send(Ok(("crew".to_owned(), host::thread_id())));
        drop(ready);
        pool.run(&threads, &drivers);
    };
    std::thread::Builder::new()
        .name("crew".to_owned())
        .spawn(work)
        .map_err(system("start a thread"))
}
