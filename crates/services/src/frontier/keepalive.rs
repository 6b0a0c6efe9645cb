//! When to say that the answer is still coming.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// One clock for a whole payload, as in the servlet: the wait for a connection and the wait for the
/// query each have their own number of keepalives, and share the rhythm.
pub(super) struct Keepalive {
    ticks: Interval,
    every_s: f64,
    left: u64,
}

impl Keepalive {
    /// One every `every_s` seconds, for `for_s` seconds.
    pub(super) fn new(every_s: f64, for_s: f64) -> Self {
        let every = Duration::from_secs_f64(every_s);
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut keepalive = Self {
            ticks,
            every_s,
            left: 0,
        };
        keepalive.next_phase(for_s);
        keepalive
    }

    /// From now on for `for_s` seconds; the number is rounded up.
    pub(super) fn next_phase(&mut self, for_s: f64) {
        self.left = (for_s / self.every_s).ceil() as u64;
    }

    /// Returns when one is due; never, once there have been enough.
    pub(super) async fn due(&mut self) {
        if self.left == 0 {
            std::future::pending::<()>().await;
        }
        self.ticks.tick().await;
        self.left -= 1;
    }
}
