//! The loop of the middle: frames in from the hosts, through the switch, out when they are due.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{self, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::control::{LinkStatus, Status};
use crate::namespace::{Space, hardware};
use crate::packets::{Batch, Port};
use crate::spec::{Config, Directed};
use crate::switch::Switch;
use crate::{WanError, frame, refused};

/// Later than this a frame counts as late: the tail of a busy machine.
const LATE_NS: i64 = 1_000_000;
/// A sleeping process wakes about so long after its timer: frames are let go when they are due
/// within it, and the timer is set so much earlier. A lone frame comes out on time, and one wake
/// serves what a fast link spaces closer.
const WAKE_NS: i64 = 40_000;
/// Shortest time between two settings of the timer: bounds what timers cost under load.
const PAUSE_NS: i64 = 40_000;
/// Frames gather for half of the delay that they have before them, and for no longer than this.
const MAX_PAUSE_NS: i64 = 100_000;
/// A stamp older than this is taken for a wall clock that was set.
const OLDEST_NS: i64 = 100_000_000;
/// Batches of one port before the others have their turn.
const TURNS: usize = 4;
const TIMER: u64 = u64::MAX;
const COMMANDS: u64 = u64::MAX - 1;
const OWNER: u64 = u64::MAX - 2;

/// What other threads ask of the loop.
pub enum Command {
    /// How things stand.
    Status(Sender<Status>),
    /// Other shapes of links.
    Change(Vec<Directed>, Sender<Result<(), WanError>>),
}

/// The loop and all that it owns.
pub struct Middle {
    config: Arc<Config>,
    spaces: Arc<Vec<Space>>,
    switch: Switch,
    ports: Vec<Port>,
    hardware: Vec<[u8; 6]>,
    epoll: Epoll,
    timer: TimerFd,
    armed: Option<i64>,
    released_at: i64,
    /// When frames were read last.
    read_at: i64,
    /// Shortest delay before the frames read since the last pause.
    soonest: i64,
    commands: (Receiver<Command>, Arc<EventFd>),
    template: Status,
    released: u64,
    late: u64,
    latest_ns: i64,
}

impl Middle {
    /// Ready to run. `owner`: readable once the owner is gone.
    pub fn new(
        config: Arc<Config>,
        spaces: Arc<Vec<Space>>,
        ports: Vec<Port>,
        commands: (Receiver<Command>, Arc<EventFd>),
        owner: BorrowedFd<'_>,
        template: Status,
    ) -> Result<Self, WanError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(refused("no epoll"))?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(timerfd::ClockId::CLOCK_MONOTONIC, flags).map_err(refused("no timer"))?;
        let watch = |fd: BorrowedFd<'_>, data| {
            epoll
                .add(fd, EpollEvent::new(EpollFlags::EPOLLIN, data))
                .map_err(refused("no epoll"))
        };
        for (number, port) in (0_u64..).zip(&ports) {
            watch(port.as_fd(), number)?;
        }
        watch(timer.as_fd(), TIMER)?;
        watch(commands.1.as_fd(), COMMANDS)?;
        watch(owner, OWNER)?;
        let middle = Middle {
            switch: Switch::new(&config)?,
            hardware: config.hosts.iter().map(|host| hardware(host.address)).collect(),
            config,
            spaces,
            ports,
            epoll,
            timer,
            armed: None,
            released_at: 0,
            read_at: 0,
            soonest: i64::MAX,
            commands,
            template,
            released: 0,
            late: 0,
            latest_ns: 0,
        };
        middle.set_offloads()?;
        Ok(middle)
    }

    /// Carries frames until the owner is gone.
    pub fn run(mut self) -> Result<(), WanError> {
        // What the kernel may be late by on purpose, to save wakes of its own.
        let _ = prctl::set_timerslack(1);
        let mut batch = Batch::new();
        let mut events = [EpollEvent::empty(); 64];
        loop {
            self.gather();
            self.release();
            self.arm().map_err(refused("the timer cannot be set"))?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(why) => return Err(refused("the middle cannot wait")(why)),
            };
            for event in &events[..count] {
                match event.data() {
                    TIMER => {
                        self.armed = None;
                        let _ = self.timer.wait();
                    }
                    COMMANDS => self.obey(),
                    OWNER => return Ok(()),
                    port => self.receive(port as usize, &mut batch),
                }
            }
        }
    }

    /// Frames count from when they left their host, not from when they are read here: a loop that
    /// is late then changes neither delays nor queues, unless it is later than they are long.
    fn receive(&mut self, port: usize, batch: &mut Batch) {
        for _ in 0..TURNS {
            let (now, wall) = (now(), read_clock(ClockId::CLOCK_REALTIME));
            let (switch, soonest) = (&mut self.switch, &mut self.soonest);
            let more = self.ports[port].receive(batch, |left_at, frame| {
                // A wall clock that was set meanwhile makes nonsense of a stamp.
                let age = if left_at == 0 { 0 } else { wall - left_at };
                let age = if (0..OLDEST_NS).contains(&age) { age } else { 0 };
                if let Some(delay) = switch.accept(now - age, port, frame) {
                    *soonest = delay.min(*soonest);
                }
            });
            if !more {
                break;
            }
        }
    }

    /// Under load, lets frames gather where those just read have time: one wake for many costs a
    /// fraction.
    fn gather(&mut self) {
        let soonest = std::mem::replace(&mut self.soonest, i64::MAX);
        if soonest == i64::MAX {
            return;
        }
        let now = now();
        let since = now - std::mem::replace(&mut self.read_at, now);
        let pause = (soonest / 2).min(MAX_PAUSE_NS);
        if pause < PAUSE_NS || since > 2 * MAX_PAUSE_NS {
            return;
        }
        let until = TimeSpec::from(Duration::from_nanos((now + pause).unsigned_abs()));
        // Woken early by a signal, it gathers less.
        let _ = clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::TIMER_ABSTIME,
            &until,
        );
        self.read_at = self::now();
    }

    fn release(&mut self) {
        let now = now();
        self.released_at = now;
        let (ports, hardware) = (&mut self.ports, &self.hardware);
        let (released, late, latest) = (&mut self.released, &mut self.late, &mut self.latest_ns);
        self.switch.release(now + WAKE_NS, |mut arrival| {
            let behind = now - arrival.due;
            *released += 1;
            *late += u64::from(behind > LATE_NS);
            *latest = behind.max(*latest);
            frame::readdress(&mut arrival.frame, hardware[arrival.to]);
            ports[arrival.to].send(&arrival.frame);
        });
    }

    fn arm(&mut self) -> nix::Result<()> {
        let next = self.switch.next_due();
        if next == self.armed {
            return Ok(());
        }
        self.armed = next;
        let Some(due) = next else {
            return self.timer.unset();
        };
        let at = (due - WAKE_NS).max(self.released_at + PAUSE_NS);
        let at = TimeSpec::from(Duration::from_nanos(at.unsigned_abs()));
        self.timer
            .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
    }

    fn obey(&mut self) {
        let _ = self.commands.1.read();
        while let Ok(command) = self.commands.0.try_recv() {
            // Whoever asked may be gone meanwhile.
            match command {
                Command::Status(to) => drop(to.send(self.status())),
                Command::Change(changes, to) => drop(to.send(self.change(&changes))),
            }
        }
    }

    fn change(&mut self, changes: &[Directed]) -> Result<(), WanError> {
        self.switch.change(changes, now())?;
        self.set_offloads()
    }

    fn set_offloads(&self) -> Result<(), WanError> {
        self.spaces
            .iter()
            .enumerate()
            .try_for_each(|(host, space)| space.set_segments(self.switch.segments(self.switch.site_of(host))))
    }

    fn status(&mut self) -> Status {
        let trouble = self.ports.iter_mut().map(Port::trouble);
        let (missed, unsent) = trouble.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let name = |site: usize| self.config.sites[site].clone();
        Status {
            links: self
                .switch
                .links()
                .map(|((from, to), shape, counters, held_bytes)| LinkStatus {
                    from: name(from),
                    to: name(to),
                    shape,
                    counters,
                    held_bytes,
                })
                .collect(),
            missed,
            unsent,
            stray: self.switch.stray(),
            released: self.released,
            late: self.late,
            latest_us: self.latest_ns / 1_000,
            ..self.template.clone()
        }
    }
}

/// What the timer uses too.
fn now() -> i64 {
    read_clock(ClockId::CLOCK_MONOTONIC)
}

fn read_clock(clock: ClockId) -> i64 {
    // Both clocks are there on every Linux, and nothing else can fail.
    let at = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    at.tv_sec() * 1_000_000_000 + at.tv_nsec()
}
