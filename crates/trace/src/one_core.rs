//! Attributes processor time to threads that share one core.
//!
//! The time between two calls of a thread counts as computing. If strace and the traced threads
//! share one core (`record --one-core`), such gaps of several threads overlap, but at most one
//! thread can compute at a time. A thread that enters a call ran immediately before, at most since
//! strace last served a thread. The remaining time is divided among all threads that were between
//! calls, because the scheduler is fair.

use std::collections::HashMap;

use crate::hash::BuildMixer;

/// The maximum time that one thread has the core while others want it, ns. It is less than the time
/// slice of schedulers, because the thread may have had the core before.
const TURN_NS: i64 = 1_000_000;

/// Follows which thread has the core, in the order in which strace served the threads.
#[derive(Debug, Default)]
pub(crate) struct OneCore {
    /// When strace last served a thread, ns.
    served: i64,
    /// Shared time of a thread that was between calls all the time, ns.
    share: f64,
    /// Threads between two calls: the value of `share` and the time when that began, by thread.
    between: HashMap<u32, (f64, i64), BuildMixer>,
    /// Threads within a call, and their processor time before it.
    within: HashMap<u32, Option<u64>, BuildMixer>,
}

impl OneCore {
    /// A thread enters a call.
    pub(crate) fn enter(&mut self, thread: u32, at_ns: i64) {
        let passed = self.advance(at_ns);
        let others = self.between.len() > 1;
        let own = if others { passed.min(TURN_NS) } else { passed };
        self.distribute(passed - own);
        let gap = self.between.remove(&thread);
        let cpu = gap.and_then(|(share, since)| {
            let cpu = own as f64 + self.share - share;
            let gap = at_ns.saturating_sub(since).max(0);
            (cpu.round() < gap as f64).then_some(cpu.max(0.0) as u64)
        });
        self.within.insert(thread, cpu);
    }

    /// A thread leaves its call. `waited`: the core was available to others during the call.
    /// Returns the processor time between its previous call and this one, ns. None if no other
    /// thread can have used the core in that time, or if the previous call is unknown.
    pub(crate) fn leave(&mut self, thread: u32, at_ns: i64, waited: bool) -> Option<u64> {
        let passed = self.advance(at_ns);
        if waited {
            self.distribute(passed);
        }
        self.between.insert(thread, (self.share, at_ns));
        self.within.remove(&thread).flatten()
    }

    /// Removes a thread that has ended.
    pub(crate) fn remove(&mut self, thread: u32) {
        self.between.remove(&thread);
        self.within.remove(&thread);
    }

    /// Moves the clock to `at_ns` and returns the time since strace last served a thread. Late
    /// lines, of children that appear in the log before their parents, add nothing.
    fn advance(&mut self, at_ns: i64) -> i64 {
        let passed = at_ns.saturating_sub(self.served).max(0);
        self.served = self.served.max(at_ns);
        passed
    }

    fn distribute(&mut self, passed: i64) {
        if passed > 0 && !self.between.is_empty() {
            self.share += passed as f64 / self.between.len() as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// A call with the duration 0.
    fn call(core: &mut OneCore, thread: u32, at_ns: i64) -> Option<u64> {
        core.enter(thread, at_ns);
        core.leave(thread, at_ns, false)
    }

    #[test]
    fn a_single_thread_has_the_core_all_the_time() {
        let mut core = OneCore::default();
        assert_eq!(
            call(&mut core, 1, MS),
            None,
            "the time before the first call is unknown"
        );
        assert_eq!(call(&mut core, 1, 90 * MS), None);
    }

    /// As with the lock of Python: one thread wakes up while another one computes, and waits for
    /// the lock again at once.
    #[test]
    fn time_in_which_one_thread_waits_counts_for_the_thread_that_computes() {
        let mut core = OneCore::default();
        call(&mut core, 1, 0);
        call(&mut core, 2, 0);
        core.enter(2, MS / 100);
        // It sleeps for 5 ms in which the other thread computes, and requests the lock 0.02 ms
        // later.
        assert_eq!(
            core.leave(2, 5 * MS, true),
            None,
            "it had the core during its whole gap"
        );
        core.enter(2, 5 * MS + MS / 50);
        // The other thread has computed for 6 ms minus the time of the second thread.
        let cpu = call(&mut core, 1, 6 * MS).unwrap() as i64;
        assert_eq!(cpu, 6 * MS - MS / 100 - MS / 50);
    }

    #[test]
    fn threads_that_compute_at_the_same_time_share_the_core() {
        let mut core = OneCore::default();
        for thread in 1..=4 {
            call(&mut core, thread, 0);
        }
        // 50 ms each. They end one after the other, within the time slices of a scheduler.
        let ends = [191, 194, 197, 200].map(|ms| ms * MS);
        let mut all = 0;
        for (thread, end) in (1..=4).zip(ends) {
            core.enter(thread, end);
            let cpu = core.leave(thread, end, false).unwrap() as i64;
            core.remove(thread);
            assert!((44 * MS..56 * MS).contains(&cpu), "{thread}: {cpu}");
            all += cpu;
        }
        assert!(
            (all - 200 * MS).abs() < 10,
            "the shares add up to the elapsed time: {all}"
        );
    }

    #[test]
    fn a_late_line_adds_no_processor_time() {
        let mut core = OneCore::default();
        call(&mut core, 1, 10 * MS);
        call(&mut core, 2, 3 * MS);
        assert_eq!(call(&mut core, 2, 4 * MS), Some(0));
        core.remove(1);
        assert_eq!(call(&mut core, 1, 20 * MS), None);
    }
}
