//! The loop of the middle: reads frames of the hosts, passes them through the switch, and sends
//! them when they are due.

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
use crate::spec::{Config, DirectedLink};
use crate::switch::Switch;
use crate::{WanError, frame, refused};

/// A frame that is sent later than this after its due time counts as late.
const LATE_NS: i64 = 1_000_000;
/// Time by which a sleeping process wakes after its timer. The timer is set earlier by this time,
/// and frames that are due within it are sent. A lone frame is thus on time, and one wake serves
/// frames that a fast link spaces more closely.
const WAKE_NS: i64 = 40_000;
/// Minimum time between two expirations of the timer. It limits the cost of timers under load.
const PAUSE_NS: i64 = 40_000;
/// Maximum time for which the loop lets frames accumulate. It waits for at most half of the delay
/// of these frames.
const MAX_PAUSE_NS: i64 = 100_000;
/// A frame cannot wait longer than this in its socket. If a time stamp is older, the wall clock was
/// set.
const MAX_AGE_NS: i64 = 100_000_000;
/// Maximum number of batches that are read from one port before the other ports are read.
const MAX_BATCHES: usize = 4;
const TIMER: u64 = u64::MAX;
const COMMANDS: u64 = u64::MAX - 1;
const OWNER: u64 = u64::MAX - 2;

/// A request of another thread to the loop.
pub enum Command {
    /// Send the status.
    Status(Sender<Status>),
    /// Change the shapes of links, and send the result.
    Change(Vec<DirectedLink>, Sender<Result<(), WanError>>),
}

/// State of the loop.
pub struct Middle {
    config: Arc<Config>,
    spaces: Arc<Vec<Space>>,
    switch: Switch,
    ports: Vec<Port>,
    hardware: Vec<[u8; 6]>,
    epoll: Epoll,
    timer: TimerFd,
    /// Due time for which the timer is set, ns.
    armed: Option<i64>,
    /// Time of the last release, ns.
    released_at: i64,
    /// Time at which frames were last read, ns.
    read_at: i64,
    /// Minimum delay in ns of the first links of the frames read since the last pause; `i64::MAX`
    /// if none were read.
    min_delay: i64,
    /// Requests of other threads, and the event that announces one.
    commands: (Receiver<Command>, Arc<EventFd>),
    template: Status,
    released: u64,
    late: u64,
    latest_ns: i64,
}

impl Middle {
    /// Prepares the loop. `owner` becomes readable when the owner has ended; `template` contains
    /// the constant fields of the status.
    pub fn new(
        config: Arc<Config>,
        spaces: Arc<Vec<Space>>,
        ports: Vec<Port>,
        commands: (Receiver<Command>, Arc<EventFd>),
        owner: BorrowedFd<'_>,
        template: Status,
    ) -> Result<Self, WanError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(refused("cannot create an epoll instance"))?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(timerfd::ClockId::CLOCK_MONOTONIC, flags)
            .map_err(refused("cannot create a timer"))?;
        let watch = |fd: BorrowedFd<'_>, data| {
            epoll
                .add(fd, EpollEvent::new(EpollFlags::EPOLLIN, data))
                .map_err(refused("cannot add a descriptor to the epoll instance"))
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
            min_delay: i64::MAX,
            commands,
            template,
            released: 0,
            late: 0,
            latest_ns: 0,
        };
        middle.set_offloads()?;
        Ok(middle)
    }

    /// Forwards frames until the owner has ended.
    pub fn run(mut self) -> Result<(), WanError> {
        // By default the kernel delays timers by up to 50 us, to combine wakes.
        let _ = prctl::set_timerslack(1);
        let mut batch = Batch::new();
        let mut events = [EpollEvent::empty(); 64];
        loop {
            self.accumulate();
            self.release();
            self.arm().map_err(refused("cannot set the timer"))?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(why) => return Err(refused("the middle cannot wait for frames")(why)),
            };
            for event in &events[..count] {
                match event.data() {
                    TIMER => {
                        self.armed = None;
                        let _ = self.timer.wait();
                    }
                    COMMANDS => self.execute_commands(),
                    OWNER => return Ok(()),
                    port => self.receive(port as usize, &mut batch),
                }
            }
        }
    }

    /// Reads the frames of a port. A frame enters its first link at the time at which its host sent
    /// it, not at the time of this read. If the loop is late by less than the delay, delays and
    /// queues are therefore not changed.
    fn receive(&mut self, port: usize, batch: &mut Batch) {
        for _ in 0..MAX_BATCHES {
            let (now, wall) = (now(), read_clock(ClockId::CLOCK_REALTIME));
            let (switch, min_delay) = (&mut self.switch, &mut self.min_delay);
            let more = self.ports[port].receive(batch, |sent_at, frame| {
                // If the wall clock was set after the stamp, the stamp is not used.
                let age = if sent_at == 0 { 0 } else { wall - sent_at };
                let age = if (0..MAX_AGE_NS).contains(&age) { age } else { 0 };
                if let Some(delay) = switch.accept(now - age, port, frame) {
                    *min_delay = delay.min(*min_delay);
                }
            });
            if !more {
                break;
            }
        }
    }

    /// Under load, sleeps while frames accumulate, if the delay of the frames just read permits it.
    /// One wake for many frames costs a fraction of one wake per frame.
    fn accumulate(&mut self) {
        let min_delay = std::mem::replace(&mut self.min_delay, i64::MAX);
        if min_delay == i64::MAX {
            return;
        }
        let now = now();
        let since = now - std::mem::replace(&mut self.read_at, now);
        let pause = (min_delay / 2).min(MAX_PAUSE_NS);
        if pause < PAUSE_NS || since > 2 * MAX_PAUSE_NS {
            return;
        }
        let until = TimeSpec::from(Duration::from_nanos((now + pause).unsigned_abs()));
        // A signal only shortens the sleep.
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
            let lateness = now - arrival.due;
            *released += 1;
            *late += u64::from(lateness > LATE_NS);
            *latest = lateness.max(*latest);
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

    fn execute_commands(&mut self) {
        let _ = self.commands.1.read();
        while let Ok(command) = self.commands.0.try_recv() {
            // Sending fails if the client no longer waits for the result.
            match command {
                Command::Status(to) => drop(to.send(self.status())),
                Command::Change(changes, to) => drop(to.send(self.change(&changes))),
            }
        }
    }

    fn change(&mut self, changes: &[DirectedLink]) -> Result<(), WanError> {
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
        let dropped = self.ports.iter_mut().map(Port::dropped);
        let (missed, unsent) = dropped.fold((0, 0), |sum, port| (sum.0 + port.0, sum.1 + port.1));
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
            cpu_ns: read_clock(ClockId::CLOCK_PROCESS_CPUTIME_ID),
            ..self.template.clone()
        }
    }
}

/// Time in ns of the clock that the timer uses.
fn now() -> i64 {
    read_clock(ClockId::CLOCK_MONOTONIC)
}

fn read_clock(clock: ClockId) -> i64 {
    // Every Linux has these clocks, so the call does not fail.
    let time = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}
