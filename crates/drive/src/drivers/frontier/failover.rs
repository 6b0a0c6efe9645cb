//! Choice of server and proxy for a request and for the tries after a failure, in the order of the
//! public Frontier client (2.10). Pure decisions: no clock, no I/O.
//!
//! Summary of the order: a proxy without a connection is marked bad, and the next proxy is tried;
//! after the last proxy the servers are tried directly. After a failed connection it is not known
//! whether proxy or server failed: the next server is tried through the same group of proxies, then
//! the next group. A server that reports an error is marked bad, and the next server is tried; when
//! all have failed, the first server is tried again through the next proxy, then directly. An
//! invalid response is requested again on the same route without its caches, if it was old. Marks
//! of proxies are removed five minutes after the last removal, marks of servers after thirty
//! minutes, and both when no route remains.
//!
//! Without balancing each proxy is a separate group; with balancing all proxies are one group.
//! Difference to the public client: a host counts once, even if its name has several addresses,
//! over which the public client iterates.

use plimsoll_schedule::{Rng, uniform};

/// Interval after which marks of bad proxies are removed, ns.
const RESET_PROXIES_NS: i64 = 300 * 1_000_000_000;
/// Interval after which marks of bad servers are removed, ns.
const RESET_SERVERS_NS: i64 = 1800 * 1_000_000_000;
/// An invalid response that was in a cache for longer than this is requested again, s.
const STALE_ERROR_S: u64 = 300;

/// A route to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) server: usize,
    /// None: directly.
    pub(super) proxy: Option<usize>,
}

/// Kinds of failures that the public client distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No connection.
    Connect,
    /// The connection failed, or a timeout expired.
    Network,
    /// The response is invalid, or reports an error of the whole request.
    Protocol,
    /// Status 5xx or 404, or a query that failed.
    Server,
}

/// A failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailedTry {
    pub(super) trouble: Trouble,
    /// Time for which the response was in caches, s; none if they did not report it.
    pub(super) age: Option<u64>,
    /// Maximum age of the response, s; none if the server did not report it.
    pub(super) max_age: Option<u64>,
}

/// What the next try asks of caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fresh {
    /// The setting of the workload.
    AsAsked,
    /// No response older than this, s.
    MaxAge(u64),
    /// No cached response.
    NoCache,
}

/// Over which hosts the first tries are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Balance {
    None,
    Proxies,
    Servers,
}

/// State of the failover of one tester.
#[derive(Debug)]
pub(super) struct Failover {
    proxies: Ring,
    servers: Ring,
    to_server: bool,
    rng: Rng,
    fresh: Fresh,
    /// Within a request: the round over the servers was restarted with the next proxy.
    restarted: bool,
    /// Times at which the marks of proxies and of servers were last removed (raw, ns); none before
    /// the first request.
    reset_at: Option<(i64, i64)>,
    /// No route remained: all marks are removed before the next request.
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
            restarted: false,
            reset_at: None,
            spent: false,
        }
    }

    /// Removes the marks that have expired, before a request at `now` (raw, ns). Returns whether
    /// marks were removed; then the caller closes the connections, so that the first hosts of the
    /// lists are used again.
    pub(super) fn reset_expired(&mut self, now: i64) -> bool {
        let Some((proxies, servers)) = self.reset_at else {
            self.reset_at = Some((now, now));
            return false;
        };
        let spent = std::mem::take(&mut self.spent);
        if !spent && now - proxies < RESET_PROXIES_NS {
            return false;
        }
        self.proxies.reset();
        let servers_due = spent || now - servers >= RESET_SERVERS_NS;
        if servers_due {
            self.servers.reset();
        }
        self.reset_at = Some((now, if servers_due { now } else { servers }));
        true
    }

    /// Begins a request, and returns its first route. `is_open`: whether the route of the previous
    /// request has an open connection; then that route is used again.
    pub(super) fn begin(&mut self, is_open: impl FnOnce(Way) -> bool) -> Way {
        self.fresh = Fresh::AsAsked;
        self.restarted = false;
        if !is_open(self.way()) {
            self.proxies.shuffle(&mut self.rng);
            self.servers.shuffle(&mut self.rng);
        }
        self.way()
    }

    /// What the next try asks of caches.
    pub(super) fn fresh(&self) -> Fresh {
        self.fresh
    }

    /// The route of the next try after a failed one; none if no route remains.
    pub(super) fn after(&mut self, failed: FailedTry) -> Option<Way> {
        if let Some(fresh) = self.fresher(failed) {
            self.fresh = fresh;
            return Some(self.way());
        }
        self.fresh = Fresh::AsAsked;
        let has_next = match self.proxies.current() {
            Some(_) if failed.trouble != Trouble::Server => self.advance_past_proxy(failed.trouble),
            proxy => self.advance_past_server(failed.trouble, proxy.is_some()),
        };
        self.spent = !has_next;
        has_next.then(|| self.way())
    }

    fn way(&self) -> Way {
        Way {
            server: self.servers.current().unwrap_or(0),
            proxy: self.proxies.current(),
        }
    }

    /// What the next try on the same route asks of caches; none if the route is not tried again.
    fn fresher(&self, failed: FailedTry) -> Option<Fresh> {
        let protocol = failed.trouble == Trouble::Protocol;
        match self.fresh {
            Fresh::AsAsked if protocol || failed.max_age.is_some() => {
                let max_age = failed.max_age.filter(|&age| age > 0).unwrap_or(STALE_ERROR_S);
                failed
                    .age
                    .is_some_and(|age| age > max_age)
                    .then_some(Fresh::MaxAge(max_age))
            }
            // Removes a cached response whose Last-Modified does not change.
            Fresh::MaxAge(_) if protocol => Some(Fresh::NoCache),
            _ => None,
        }
    }

    /// Chooses the next route after a failure between tester and server, with a proxy on the route.
    /// Returns whether there is one.
    fn advance_past_proxy(&mut self, trouble: Trouble) -> bool {
        let mut group_ends = self.proxies.ends_group();
        if self.restarted && group_ends {
            // Otherwise restarts of servers and of proxies could alternate without end.
            self.restarted = false;
            group_ends = false;
        }
        if trouble != Trouble::Connect && group_ends {
            // It is not known whether server or proxy failed, so that neither is marked bad.
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

    /// Chooses the next route after a failure of the server, or after any failure without a proxy.
    /// Returns whether there is one.
    fn advance_past_server(&mut self, trouble: Trouble, by_proxy: bool) -> bool {
        if self.servers.advance(true) {
            return true;
        }
        if !by_proxy || trouble != Trouble::Server {
            return false;
        }
        // The proxy may have caused the failure.
        self.servers.restart();
        self.restarted = true;
        self.proxies.advance(false) || self.to_server
    }
}

/// Proxies or servers, in the order in which they are tried.
#[derive(Debug)]
struct Ring {
    /// Per host, whether it is marked bad.
    bad: Vec<bool>,
    /// Whether all hosts are one group, whose first host is random.
    balanced: bool,
    /// First host of a balanced round.
    first: usize,
    /// Current host; the number of hosts if none remains.
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

    /// Removes all marks, and returns to the first host.
    fn reset(&mut self) {
        self.bad.fill(false);
        (self.first, self.current) = (0, 0);
    }

    /// Chooses a random first host of a balanced group, if several are not marked bad.
    fn shuffle(&mut self, rng: &mut Rng) {
        if !self.balanced || self.current().is_none() {
            return;
        }
        let good = || (0..self.bad.len()).filter(|&host| !self.bad[host]);
        let count = good().count();
        if count > 1
            && let Some(host) = good().nth(uniform(rng, count as u64) as usize)
        {
            (self.first, self.current) = (host, host);
        }
    }

    /// Marks the current host if `bad`, and advances to the next host that is not marked. After the
    /// last one, removes all marks for a later round, and returns false.
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

    /// Returns to the first host that is not marked bad.
    fn restart(&mut self) {
        self.current = self.first;
        if self.bad.get(self.current) == Some(&true) {
            self.advance(false);
        }
    }

    fn ends_group(&self) -> bool {
        !self.balanced || (self.current + 1) % self.bad.len().max(1) == self.first
    }

    /// Returns to the first host of the current group.
    fn restart_group(&mut self) {
        if self.balanced {
            self.restart();
        }
    }
}

#[cfg(test)]
mod tests;
