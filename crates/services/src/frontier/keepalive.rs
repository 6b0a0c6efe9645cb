//! Times of the keepalives, which tell a waiting client that the response follows.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// The keepalives of one payload, at one interval as in the servlet. The wait for a connection and
/// the wait for the query each have their own maximum number of keepalives.
pub(super) struct Keepalive {
    /// None: no keepalives.
    ticks: Option<Interval>,
    every_s: f64,
    /// Number of keepalives that may still be sent in this phase.
    remaining: u64,
}

impl Keepalive {
    /// A keepalive every `every_s` seconds, for `for_s` seconds. `every_s` 0: none.
    pub(super) fn new(every_s: f64, for_s: f64) -> Self {
        let ticks = (every_s > 0.0).then(|| {
            let every = Duration::from_secs_f64(every_s);
            let mut ticks = interval_at(Instant::now() + every, every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        let mut keepalive = Self {
            ticks,
            every_s,
            remaining: 0,
        };
        keepalive.next_phase(for_s);
        keepalive
    }

    /// Begins a phase of `for_s` seconds. The number of keepalives is rounded up.
    pub(super) fn next_phase(&mut self, for_s: f64) {
        self.remaining = (for_s / self.every_s).ceil() as u64;
    }

    /// Returns when a keepalive is due. Never returns if all keepalives of the phase were sent.
    pub(super) async fn due(&mut self) {
        match &mut self.ticks {
            Some(ticks) if self.remaining > 0 => drop(ticks.tick().await),
            _ => std::future::pending().await,
        }
        self.remaining -= 1;
    }
}
