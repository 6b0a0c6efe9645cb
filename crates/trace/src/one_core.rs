//! Who has computed, where everybody shares one core.
//!
//! What a thread does between two calls is taken for computing. Where strace and all that it traces
//! have one core (`record --one-core`), gaps of several threads overlap, and no more than one of
//! them can have computed at a time. Whoever enters a call has run just before; how long before
//! tells the last moment at which strace served anybody. The rest is shared by all that were
//! between calls: the kernel is fair.

use std::collections::HashMap;

use crate::mixed::Mixed;

/// So long at most has one thread the core while others want it, ns: less than what schedulers
/// give, as it may have had it before.
const TURN_NS: i64 = 1_000_000;

/// Follows who has the core, moment by moment, in the order in which strace served the threads.
#[derive(Debug, Default)]
pub(crate) struct OneCore {
    /// When strace served a thread last, ns.
    served: i64,
    /// What a thread that was between calls all the time would have got of the shared times, ns.
    share: f64,
    /// Threads between two calls: by thread, what the share was, and when that began.
    between: HashMap<u32, (f64, i64), Mixed>,
    /// Threads within one, and what they have had before it.
    within: HashMap<u32, Option<u64>, Mixed>,
}

impl OneCore {
    /// A thread enters a call.
    pub(crate) fn enters(&mut self, thread: u32, at_ns: i64) {
        let passed = self.passes(at_ns);
        let others = self.between.len() > 1;
        let own = if others { passed.min(TURN_NS) } else { passed };
        self.shares(passed - own);
        let gap = self.between.remove(&thread);
        let cpu = gap.and_then(|(share, since)| {
            let cpu = own as f64 + self.share - share;
            let gap = at_ns.saturating_sub(since).max(0);
            (cpu.round() < gap as f64).then_some(cpu.max(0.0) as u64)
        });
        self.within.insert(thread, cpu);
    }

    /// A thread leaves the call that it has entered; `waited`: the core was for others meanwhile.
    /// The processor time that it had before the call since its last one, ns; none where nobody
    /// else can have had any of that, or its last one is not known.
    pub(crate) fn leaves(&mut self, thread: u32, at_ns: i64, waited: bool) -> Option<u64> {
        let passed = self.passes(at_ns);
        if waited {
            self.shares(passed);
        }
        self.between.insert(thread, (self.share, at_ns));
        self.within.remove(&thread).flatten()
    }

    /// It is no more.
    pub(crate) fn ends(&mut self, thread: u32) {
        self.between.remove(&thread);
        self.within.remove(&thread);
    }

    /// Time since strace served anybody. Lines that are told late, of children that spoke before
    /// their parents, add nothing.
    fn passes(&mut self, at_ns: i64) -> i64 {
        let passed = at_ns.saturating_sub(self.served).max(0);
        self.served = self.served.max(at_ns);
        passed
    }

    fn shares(&mut self, passed: i64) {
        if passed > 0 && !self.between.is_empty() {
            self.share += passed as f64 / self.between.len() as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// A call that takes no time.
    fn calls(core: &mut OneCore, thread: u32, at_ns: i64) -> Option<u64> {
        core.enters(thread, at_ns);
        core.leaves(thread, at_ns, false)
    }

    #[test]
    fn a_thread_alone_has_all_of_it() {
        let mut core = OneCore::default();
        assert_eq!(calls(&mut core, 1, MS), None, "nobody knows what was before");
        assert_eq!(calls(&mut core, 1, 90 * MS), None);
    }

    /// As with Python's lock: one wakes up while another one computes, and goes on to wait for the
    /// lock at once.
    #[test]
    fn whoever_computes_while_another_one_waits_has_what_passes() {
        let mut core = OneCore::default();
        calls(&mut core, 1, 0);
        calls(&mut core, 2, 0);
        core.enters(2, MS / 100);
        // It sleeps for 5 ms of the other one's computing, and asks for the lock 0.02 ms after
        // that.
        assert_eq!(core.leaves(2, 5 * MS, true), None, "it had all of its gap");
        core.enters(2, 5 * MS + MS / 50);
        // The other one goes on: 6 ms without what was the second one's.
        let cpu = calls(&mut core, 1, 6 * MS).unwrap() as i64;
        assert_eq!(cpu, 6 * MS - MS / 100 - MS / 50);
    }

    #[test]
    fn many_that_compute_share_the_core() {
        let mut core = OneCore::default();
        for thread in 1..=4 {
            calls(&mut core, thread, 0);
        }
        // 50 ms each; they end one after the other, within the turns of a scheduler.
        let ends = [191, 194, 197, 200].map(|ms| ms * MS);
        let mut all = 0;
        for (thread, end) in (1..=4).zip(ends) {
            core.enters(thread, end);
            let cpu = core.leaves(thread, end, false).unwrap() as i64;
            core.ends(thread);
            assert!((44 * MS..56 * MS).contains(&cpu), "{thread}: {cpu}");
            all += cpu;
        }
        assert!((all - 200 * MS).abs() < 10, "nothing is lost: {all}");
    }

    #[test]
    fn what_is_told_late_adds_nothing() {
        let mut core = OneCore::default();
        calls(&mut core, 1, 10 * MS);
        calls(&mut core, 2, 3 * MS);
        assert_eq!(calls(&mut core, 2, 4 * MS), Some(0));
        core.ends(1);
        assert_eq!(calls(&mut core, 1, 20 * MS), None);
    }
}
