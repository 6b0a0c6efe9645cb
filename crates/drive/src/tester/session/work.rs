//! Work of a session: the program with which it starts, and computing. Each runs on a thread of its
//! own, so that it delays no other tester, and is not counted as load of a lane.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use plimsoll_clock::Clock;
use plimsoll_model::SESSION_THREAD;

use crate::drivers::exec::program::{Program, ProgramStatus};
use crate::lane::reactor::event_fd;
use crate::run::host;
use crate::tester::control::Control;
use crate::tester::limit::{Due, Limit, TimeoutCodes};

/// Number of steps of computing between two readings of the clock: some ten microseconds.
const STEPS: u32 = 10_000;
/// Maximum number of characters of a program's output in a message.
const MAX_OUTPUT: usize = 200;

/// A part of a session that uses a core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionWork {
    /// A program and its arguments, which must end with success within `timeout_ns`.
    Program { command: Arc<[String]>, timeout_ns: u64 },
    /// Computing that uses this time on a core, ns.
    Compute { ns: u64 },
}

/// How work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkEnd {
    /// It succeeded.
    Done,
    /// It failed, for this reason.
    Failed(String),
    /// It was stopped, because the run is over.
    Stopped,
}

impl WorkEnd {
    /// The end of `work` with this result; none if it is still in progress and must be stopped.
    pub(crate) fn of(result: Option<Result<(), String>>, work: WorkInProgress, control: &Control) -> Self {
        match result {
            Some(Ok(())) => Self::Done,
            Some(Err(reason)) => Self::Failed(reason),
            None => {
                control.add_stopped_work(work.stop());
                Self::Stopped
            }
        }
    }
}

/// What the threads of a lane need.
#[derive(Clone)]
pub(crate) struct WorkContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeouts: TimeoutCodes,
    /// Cores of the testers. Empty: not bound.
    pub(crate) cores: Arc<[u32]>,
}

/// Shared by the thread and the tester that waits for it.
struct WorkState {
    is_stopped: AtomicBool,
    stop: OwnedFd,
    end: Mutex<End>,
}

/// How work ended, and who waits for its end.
#[derive(Default)]
struct End {
    /// The error is a message for the user.
    result: Option<Result<(), String>>,
    waker: Option<Waker>,
}

/// Work in progress.
pub(crate) struct WorkInProgress {
    shared: Arc<WorkState>,
    thread: JoinHandle<()>,
}

impl WorkInProgress {
    pub(crate) fn start(work: SessionWork, context: WorkContext) -> io::Result<Self> {
        let shared = Arc::new(WorkState {
            is_stopped: AtomicBool::new(false),
            stop: event_fd()?,
            end: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(SESSION_THREAD.to_owned())
            .spawn(move || {
                let result = of_thread.carry_out(&work, &context);
                let mut end = of_thread.end.lock().unwrap_or_else(PoisonError::into_inner);
                end.result = Some(result);
                if let Some(waker) = end.waker.take() {
                    waker.wake();
                }
            })?;
        Ok(Self { shared, thread })
    }

    /// The result, if the work has ended. Otherwise `waker` is called when it ends.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<(), String>> {
        let mut end = self.shared.end.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = end.result.take() {
            return Poll::Ready(result);
        }
        end.waker = Some(waker.clone());
        Poll::Pending
    }

    /// Ends the work. The caller must join the thread, which ends within a second.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        let increment = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open as long as `shared`, and the buffer has eight bytes.
        unsafe {
            libc::write(
                self.shared.stop.as_raw_fd(),
                increment.as_ptr().cast(),
                increment.len(),
            )
        };
        self.thread
    }
}

impl WorkState {
    fn carry_out(&self, work: &SessionWork, context: &WorkContext) -> Result<(), String> {
        if !context.cores.is_empty() {
            host::bind(&context.cores)
                .map_err(|error| format!("bind to the cores of the testers: {error}"))?;
        }
        match work {
            SessionWork::Program { command, timeout_ns } => self.run(command, *timeout_ns, context),
            SessionWork::Compute { ns } => {
                // The lanes preempt it at once, so that the stamps of transactions remain precise.
                host::run_when_idle();
                self.compute(*ns);
                Ok(())
            }
        }
    }

    fn run(&self, command: &[String], timeout_ns: u64, context: &WorkContext) -> Result<(), String> {
        let Some((name, arguments)) = command.split_first() else {
            return Ok(());
        };
        let mut program = Program::start(Command::new(name).args(arguments))
            .map_err(|error| format!("{name} cannot be started: {error}"))?;
        program.write(&[], true);
        let deadline = context
            .clock
            .raw_ns()
            .saturating_add(i64::try_from(timeout_ns).unwrap_or(i64::MAX));
        let limit = Limit {
            clock: &*context.clock,
            deadline,
            cancelled: &self.is_stopped,
            cancel_fd: self.stop.as_raw_fd(),
            timeouts: context.timeouts,
        };
        loop {
            match program.watch(&limit) {
                ProgramStatus::Moved => {}
                ProgramStatus::Ended => {
                    program.read_available();
                    let exit = program.reap();
                    if exit.is_success() {
                        return Ok(());
                    }
                    let output = String::from_utf8_lossy(program.err.bytes());
                    let output: String = output.trim().chars().take(MAX_OUTPUT).collect();
                    return Err(format!("{name} failed ({}): {output}", exit.word()));
                }
                ProgramStatus::Due(Due::Timeout) => {
                    return Err(format!("{name} did not end within the timeout of the workload"));
                }
                // Nobody reads the result.
                ProgramStatus::Due(Due::Cancelled) => return Ok(()),
            }
        }
    }

    /// Uses a core until this thread has used it for `ns`.
    fn compute(&self, ns: u64) {
        let end = host::thread_cpu_ns().saturating_add(ns);
        let mut state = ns | 1;
        while host::thread_cpu_ns() < end && !self.is_stopped.load(Ordering::Relaxed) {
            for _ in 0..STEPS {
                state = std::hint::black_box(state.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            }
        }
    }
}
