//! A run on this host: prepares the drivers, owns the threads.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::JoinHandle;

use plimsoll_clock::Clock;
use plimsoll_model::{Codes, NameLookup, RunEnd, RunSpec, Workload};
use plimsoll_schedule::Used;

use crate::api::{DriveError, DriveEvent, Portions, Sink};
use crate::arrivals::{Arrivals, Pool};
use crate::blocking_pool::{self, BlockingPool, BlockingPoolSetup, ErasedBlockingDriver};
use crate::control::Control;
use crate::driver::Setup;
use crate::host;
use crate::lane::{self, ErasedAsyncDriver, LaneSetup};
use crate::lane_stats::{ActiveTester, LaneStats};
use crate::plan::{Population, populations};
use crate::policy::TesterSlot;
use crate::reactor::Reactor;
use crate::registry::{self, PreparedDriver};

/// Descriptors that the process needs besides those of its testers.
const OTHER_FILES: u64 = 64;
/// Pipes, process and stack of a tester that runs programs.
const FILES_OF_A_PROGRAM: u64 = 6;

/// How many lanes, and so sinks, [`Drive::prepare`] wants on this host: one per core that testers
/// may use, no more than there are testers, and one more for all blocking testers together. An
/// unknown driver counts as async here.
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

/// A run on this host: owner of the lanes' threads. Dropping it stops the run and waits for its
/// end.
pub struct Drive {
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    lanes: Vec<JoinHandle<()>>,
    threads: Vec<(String, i32)>,
    spun_ns: Arc<AtomicU64>,
    lookups: Vec<NameLookup>,
}

/// What every lane is made from.
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
    /// Checks everything that can be checked (settings, templates, files, TLS, names of hosts),
    /// opens no connection, and starts the threads, which wait for [`Drive::go`]. `sinks` holds one
    /// sink per lane ([`lanes_for`]).
    ///
    /// The receiver of `events` should hold a few hundred and be read all the time: a lane never
    /// waits for it while the load goes on, but does to say its last words.
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
        let made = make_all(&spec, &populations, &codes, &lookups)?;
        check_resources(&portions, &populations, &made)?;
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
            .map(|(population, &share)| Pool::new(population, share?, spec.seed))
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
        drive.start(&common, &made, lanes, sinks)?;
        drop(common);
        // Every thread holds a sender until it is ready, so that this ends when all are, or have
        // failed.
        for thread in started {
            drive.threads.push(thread?);
        }
        Ok(drive)
    }

    fn start(
        &mut self,
        common: &Common,
        made: &[PreparedDriver],
        lanes: usize,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Result<(), DriveError> {
        let has_pool = made
            .iter()
            .any(|made| matches!(made, PreparedDriver::Blocking(_)));
        let has_tasks = made.iter().any(|made| matches!(made, PreparedDriver::Async(_)));
        let least = usize::from(has_pool) + usize::from(has_tasks);
        if lanes < least || sinks.len() != lanes {
            return Err(DriveError::TooMany(format!(
                "this run needs at least {least} lanes with a sink each; it was given {lanes} lanes and {} sinks",
                sinks.len()
            )));
        }
        let tasks = lanes - usize::from(has_pool);
        for (index, sink) in sinks.into_iter().enumerate() {
            let handle = if index < tasks {
                start_lane(common, made, index, tasks, sink)?
            } else {
                start_pool(common, made, index, sink)?
            };
            self.lanes.push(handle);
        }
        Ok(())
    }

    /// The run's zero, in raw time, a little in the future; an agent that joins a run later gives
    /// what is past.
    pub fn go(&self, t0_raw_ns: i64) {
        self.control.go(t0_raw_ns, self.clock.raw_ns());
    }

    /// No new starts from now on; what is in progress may end for `drain_ns`, then it is cancelled.
    pub fn stop(&self) {
        self.control.stop(self.clock.raw_ns());
    }

    /// Waits until all lanes have ended; every [`DriveEvent::LaneEnded`] was sent. The receiver
    /// must be read meanwhile.
    pub fn join(mut self) {
        self.wait();
    }

    fn wait(&mut self) {
        for lane in self.lanes.drain(..) {
            // A panic in a lane was caught there and has become a note.
            let _ = lane.join();
        }
    }

    /// Names and kernel ids of the lanes' threads and of blocking testers, for the monitor.
    pub fn thread_ids(&self) -> Vec<(String, i32)> {
        self.threads.clone()
    }

    /// The names that were looked up, in order.
    pub fn lookups(&self) -> &[NameLookup] {
        &self.lookups
    }

    /// Time that the lanes have spun instead of slept so far, ns, summed: it is not load.
    pub fn spun_ns(&self) -> u64 {
        self.spun_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // Also where a part of the threads could not be started: those that were wait for the zero.
        self.stop();
        self.wait();
    }
}

fn make_all(
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
            used: RefCell::new(vec![Used::default(); workload.operations.len()]),
            lookups,
        };
        let name = &workload.name;
        match registry::make(&workload.driver, setup) {
            Some(Ok(made)) => {
                if spec.end
                    == (RunEnd {
                        each_tester: spec.end.each_tester,
                        ..RunEnd::default()
                    })
                    && population.curve.is_some()
                {
                    let what = "each_tester alone cannot end an open load: give a duration".to_owned();
                    return Err(DriveError::Driver {
                        workload: name.clone(),
                        driver: workload.driver.clone(),
                        what,
                    });
                }
                Ok(made)
            }
            Some(Err(what)) => Err(DriveError::Driver {
                workload: name.clone(),
                driver: workload.driver.clone(),
                what,
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
    made: &[PreparedDriver],
) -> Result<(), DriveError> {
    let (mut threads, mut files) = (0, OTHER_FILES);
    for ((population, made), share) in all.iter().zip(made).zip(&of.workloads) {
        let Some(share) = *share else { continue };
        let here = (Population::members(population.closed(), share, 0, 1).count()
            + Population::members(population.slots(), share, 0, 1).count()) as u64;
        let blocking = matches!(made, PreparedDriver::Blocking(_));
        threads += if blocking { here } else { 0 };
        files += here
            * match made {
                PreparedDriver::Async(fleet) => fleet.files(),
                PreparedDriver::Blocking(_) => FILES_OF_A_PROGRAM,
            };
    }
    if threads > u64::from(blocking_pool::MAX_BLOCKING_TESTERS) {
        return Err(DriveError::TooMany(format!(
            "{threads} testers of blocking drivers (sql with SQLite, exec, replay) on one host; each is a thread, and {} is the most. Use \
             fewer testers, or an open load with fewer slots",
            blocking_pool::MAX_BLOCKING_TESTERS
        )));
    }
    let limit = host::raise_open_files();
    if files > limit {
        return Err(DriveError::TooMany(format!(
            "the testers need {files} open files and {limit} are allowed: raise the limit (`ulimit -n {files}`)"
        )));
    }
    Ok(())
}

/// The lane's view of every workload's arrivals, for the workloads that `mine` selects.
fn arrivals(
    common: &Common,
    mine: impl Fn(usize) -> bool,
    lane: usize,
    lanes: usize,
) -> Vec<Option<Arrivals>> {
    let pools = common.pools.iter().enumerate();
    pools
        .map(|(index, pool)| Some(pool.as_ref().filter(|_| mine(index))?.lane(lane, lanes)))
        .collect()
}

/// The slots of a population on a lane.
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
    let Some(share) = common.portions.workloads.get(workload).copied().flatten() else {
        return Vec::new();
    };
    let closed = Population::members(population.closed(), share, lane, lanes);
    let slots = Population::members(population.slots(), share, lane, lanes);
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
            gone: false,
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
    made: &[PreparedDriver],
    lane: usize,
    lanes: usize,
    sink: Box<dyn Sink>,
) -> Result<JoinHandle<()>, DriveError> {
    let mut all: Vec<(TesterSlot, Arc<dyn ErasedAsyncDriver>)> = Vec::new();
    for (population, made) in common.populations.iter().zip(made) {
        if let PreparedDriver::Async(fleet) = made {
            all.extend(
                slots(common, population, lane, lanes)
                    .into_iter()
                    .map(|slot| (slot, Arc::clone(fleet))),
            );
        }
    }
    let stats = stats(common, lane, &mut all, sink);
    let is_mine = |index: usize| matches!(made[index], PreparedDriver::Async(_));
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
                what: format!("bind a lane of testers to core {}", core.unwrap_or(0)),
                error,
            });
        let (clock, spin_ns) = (Arc::clone(&setup.clock), setup.spec.spin_ns);
        let io = bound.and_then(|()| {
            Reactor::new(clock, spin_ns, spun).map_err(system("open the descriptors of a lane of testers"))
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
    made: &[PreparedDriver],
    lane: usize,
    sink: Box<dyn Sink>,
) -> Result<JoinHandle<()>, DriveError> {
    let mut all: Vec<(TesterSlot, Arc<dyn ErasedBlockingDriver>)> = Vec::new();
    for (population, made) in common.populations.iter().zip(made) {
        if let PreparedDriver::Blocking(driver) = made {
            all.extend(
                slots(common, population, 0, 1)
                    .into_iter()
                    .map(|slot| (slot, Arc::clone(driver))),
            );
        }
    }
    let stats = stats(common, lane, &mut all, sink);
    let is_mine = |index: usize| matches!(made[index], PreparedDriver::Blocking(_));
    let pool = BlockingPool::new(BlockingPoolSetup {
        spec: Arc::clone(&common.spec),
        control: Arc::clone(&common.control),
        clock: Arc::clone(&common.clock),
        codes: common.codes.clone(),
        stats,
        arrivals: arrivals(common, is_mine, 0, 1),
        members: all.len(),
    })
    .map_err(system("open a descriptor"))?;
    let mut threads = Vec::new();
    for (slot, driver) in all {
        let (name, ready) = (format!("tester-{}", slot.tester()), common.ready.clone());
        let cores = common.spec.tester_cpus.clone();
        let prelude = move || {
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
        let lacks = move |what| DriveError::Driver {
            workload,
            driver: driver_name,
            what,
        };
        let ready = move |made: Result<(), DriveError>| {
            let _ = ready.send(made.map(|()| (name, host::thread_id())));
        };
        let hired = pool.hire(slot, driver, prelude, lacks, ready);
        threads.push(hired.map_err(system("start the thread of a tester"))?);
    }
    let blocking = |made: &PreparedDriver| match made {
        PreparedDriver::Blocking(driver) => Some(Arc::clone(driver)),
        PreparedDriver::Async(_) => None,
    };
    let drivers: Vec<Arc<dyn ErasedBlockingDriver>> = made.iter().filter_map(blocking).collect();
    let (control, ready) = (Arc::clone(&common.control), common.ready.clone());
    let lead = move || {
        let leader = std::thread::current();
        control.on_change(move || leader.unpark());
        let _ = ready.send(Ok(("crew".to_owned(), host::thread_id())));
        drop(ready);
        pool.lead(&threads, &drivers);
    };
    std::thread::Builder::new()
        .name("crew".to_owned())
        .spawn(lead)
        .map_err(system("start a thread"))
}
