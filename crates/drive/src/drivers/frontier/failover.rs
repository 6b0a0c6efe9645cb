//! Which server and which proxy a request goes to, and where it goes after a failure: the order of
//! the public Frontier client (2.10), as pure decisions. No clock, no I/O: what happened in, what
//! is next out.
//!
//! In short: a proxy that cannot be connected to is bad, and the next one is tried; at the end of
//! the proxies the servers are tried directly. A connection that breaks says nothing of whose fault
//! it was: the next server is tried through the same group of proxies, then the next group. An
//! error of the server makes it bad, and the next server is tried; when all have failed, the first
//! again through the next proxy, then directly. An answer that is none is asked for again from the
//! same place past its caches, if it was old. Bad proxies are forgotten five minutes after the
//! lists were last made good, bad servers after thirty, both when nothing is left to try.
//!
//! Without balancing each proxy is a group of its own; with it, all of them are one. A host is one
//! place here however many addresses its name has: the client's rounds over the addresses of a name
//! are not followed.

use plimsoll_schedule::{Rng, uniform};

/// Proxies are made good again this long after the last time, ns.
const FORGET_PROXIES_NS: i64 = 300 * 1_000_000_000;
/// Servers likewise.
const FORGET_SERVERS_NS: i64 = 1800 * 1_000_000_000;
/// An answer that makes no sense and has been in a cache for longer than this is asked for anew, s.
const STALE_ERROR_S: u64 = 300;

/// A way to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) server: usize,
    /// None: directly.
    pub(super) proxy: Option<usize>,
}

/// What went wrong with a try, as the client tells errors apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No connection.
    Connect,
    /// The connection broke, or nothing came for too long.
    Network,
    /// An answer that is none of the protocol's, or that reports an error of the whole request.
    Protocol,
    /// Status 5xx or 404, or a query that failed.
    Server,
}

/// A try that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) trouble: Trouble,
    /// Seconds that the answer has been in caches, where they say so.
    pub(super) age: Option<u64>,
    /// Seconds that it may be old, where the server says so.
    pub(super) max_age: Option<u64>,
}

/// What the next try asks of caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fresh {
    /// What the workload says.
    AsAsked,
    /// Nothing older, s.
    MaxAge(u64),
    /// Nothing of theirs.
    NoCache,
}

/// Over what the first tries are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Balance {
    None,
    Proxies,
    Servers,
}

/// Where one tester stands.
#[derive(Debug)]
pub(super) struct Failover {
    proxies: Ring,
    servers: Ring,
    to_server: bool,
    rng: Rng,
    fresh: Fresh,
    /// Within a request: the servers were begun anew at the next proxy.
    begun_anew: bool,
    /// When proxies and servers were last made good (raw, ns); none before the first request.
    good_since: Option<(i64, i64)>,
    /// Nothing was left to try: all is made good before the next request.
    spent: bool,
}

impl Failover {
    /// `servers` is at least 1. `to_server`: whether servers are tried directly when no proxy is
    /// left.
    pub(super) fn new(servers: usize, proxies: usize, balance: Balance, to_server: bool, rng: Rng) -> Self {
        Self {
            proxies: Ring::new(proxies, balance == Balance::Proxies),
            servers: Ring::new(servers, balance == Balance::Servers),
            to_server,
            rng,
            fresh: Fresh::AsAsked,
            begun_anew: false,
            good_since: None,
            spent: false,
        }
    }

    /// Before a request, at `now` (raw, ns): makes good what was bad for long enough. Says whether
    /// it did, in which case connections are to be closed, so that the first in the lists are used
    /// again.
    pub(super) fn forget(&mut self, now: i64) -> bool {
        let Some((proxies, servers)) = self.good_since else {
            self.good_since = Some((now, now));
            return false;
        };
        let spent = std::mem::take(&mut self.spent);
        if !spent && now - proxies < FORGET_PROXIES_NS {
            return false;
        }
        self.proxies.make_good();
        let servers_due = spent || now - servers >= FORGET_SERVERS_NS;
        if servers_due {
            self.servers.make_good();
        }
        self.good_since = Some((now, if servers_due { now } else { servers }));
        true
    }

    /// A request begins: its first way. `open`: whether there is a connection for the way of the
    /// last one, which then serves again.
    pub(super) fn begin(&mut self, open: impl FnOnce(Way) -> bool) -> Way {
        self.fresh = Fresh::AsAsked;
        self.begun_anew = false;
        if !open(self.way()) {
            self.proxies.shuffle(&mut self.rng);
            self.servers.shuffle(&mut self.rng);
        }
        self.way()
    }

    /// What the next try asks of caches.
    pub(super) fn fresh(&self) -> Fresh {
        self.fresh
    }

    /// After a failure: the next way, or none if nothing is left to try.
    pub(super) fn after(&mut self, failed: Failed) -> Option<Way> {
        if let Some(fresh) = self.fresher(failed) {
            self.fresh = fresh;
            return Some(self.way());
        }
        self.fresh = Fresh::AsAsked;
        let more = match self.proxies.current() {
            Some(_) if failed.trouble != Trouble::Server => self.past_proxy(failed.trouble),
            proxy => self.past_server(failed.trouble, proxy.is_some()),
        };
        self.spent = !more;
        more.then(|| self.way())
    }

    fn way(&self) -> Way {
        Way {
            server: self.servers.current().unwrap_or(0),
            proxy: self.proxies.current(),
        }
    }

    /// Whether the same place is asked again, past its caches.
    fn fresher(&self, failed: Failed) -> Option<Fresh> {
        let protocol = failed.trouble == Trouble::Protocol;
        match self.fresh {
            Fresh::AsAsked if protocol || failed.max_age.is_some() => {
                let most = failed.max_age.filter(|&age| age > 0).unwrap_or(STALE_ERROR_S);
                failed
                    .age
                    .is_some_and(|age| age > most)
                    .then_some(Fresh::MaxAge(most))
            }
            // Clears what was cached with a Last-Modified that does not change.
            Fresh::MaxAge(_) if protocol => Some(Fresh::NoCache),
            _ => None,
        }
    }

    /// Something between us and the server failed, and there is a proxy in between.
    fn past_proxy(&mut self, trouble: Trouble) -> bool {
        let mut group_ends = self.proxies.ends_group();
        if self.begun_anew && group_ends {
            // Else servers begun anew and proxies begun anew could go on in turns for ever.
            self.begun_anew = false;
            group_ends = false;
        }
        if trouble != Trouble::Connect && group_ends {
            // Server or proxy: nobody can tell, so neither is bad.
            if self.servers.advance(false) {
                self.proxies.restart_group();
                return true;
            }
            self.servers.restart();
            return self.proxies.advance(false) || self.to_server;
        }
        if self.proxies.advance(trouble == Trouble::Connect) {
            return true;
        }
        self.servers.restart();
        self.to_server
    }

    /// The server failed, or there is nothing but the server.
    fn past_server(&mut self, trouble: Trouble, by_proxy: bool) -> bool {
        if self.servers.advance(true) {
            return true;
        }
        if !by_proxy || trouble != Trouble::Server {
            return false;
        }
        // It could have been the proxy all the same.
        self.servers.restart();
        self.begun_anew = true;
        self.proxies.advance(false) || self.to_server
    }
}

/// Proxies or servers, in the order in which they are tried.
#[derive(Debug)]
struct Ring {
    bad: Vec<bool>,
    /// All are one group, entered anywhere.
    balanced: bool,
    /// Where a balanced round began.
    first: usize,
    /// Past the last: none is left.
    current: usize,
}

impl Ring {
    fn new(count: usize, balanced: bool) -> Self {
        Self {
            bad: vec![false; count],
            balanced,
            first: 0,
            current: 0,
        }
    }

    fn current(&self) -> Option<usize> {
        (self.current < self.bad.len()).then_some(self.current)
    }

    fn make_good(&mut self) {
        self.bad.fill(false);
        (self.first, self.current) = (0, 0);
    }

    /// Enters a balanced group anywhere, if several are good.
    fn shuffle(&mut self, rng: &mut Rng) {
        if !self.balanced || self.current().is_none() {
            return;
        }
        let good = || (0..self.bad.len()).filter(|&which| !self.bad[which]);
        let count = good().count();
        if count > 1
            && let Some(which) = good().nth(uniform(rng, count as u64) as usize)
        {
            (self.first, self.current) = (which, which);
        }
    }

    /// Goes on to the next that is good. Past the last of them all are made good again, for a later
    /// round.
    fn advance(&mut self, bad: bool) -> bool {
        if bad && let Some(current) = self.bad.get_mut(self.current) {
            *current = true;
        }
        let count = self.bad.len();
        loop {
            self.current += 1;
            if self.balanced {
                if self.current == count {
                    self.current = 0;
                }
                if self.current == self.first {
                    self.current = count;
                }
            }
            match self.bad.get(self.current) {
                Some(true) => {}
                Some(false) => return true,
                None => {
                    self.current = count;
                    self.bad.fill(false);
                    return false;
                }
            }
        }
    }

    /// Goes back to the first that is good.
    fn restart(&mut self) {
        self.current = self.first;
        if self.bad.get(self.current) == Some(&true) {
            self.advance(false);
        }
    }

    fn ends_group(&self) -> bool {
        !self.balanced || (self.current + 1) % self.bad.len().max(1) == self.first
    }

    /// Goes back to the beginning of the current group.
    fn restart_group(&mut self) {
        if self.balanced {
            self.restart();
        }
    }
}

#[cfg(test)]
mod tests;
