//! A decision point: its view of the grid, its own recent decisions, and the exchange of decisions
//! with other points. A pure state machine: times are ns since an origin of the caller.
//!
//! Every pair of points exchanges in both directions by one request of the point that started later
//! (full mesh). Each point sends only its own decisions. A decision is sent with its age, because
//! the clocks of two hosts differ. A point numbers its decisions; the receiver skips those that it
//! has, so that a request can be sent again after a lost response.

use std::collections::{HashMap, VecDeque};

use plimsoll_wire::broker::JobRequest;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::config::{BrokerConfig, Sites};
use super::grid::Grid;
use super::select::{Selector, choose};
use super::{MAX_BATCH, MAX_POINTS};
use crate::ServiceError;

/// Maximum number of own decisions that are stored. If there are more, a point that is out of reach
/// misses the oldest.
const MAX_STORED: usize = 100_000;

/// A decision on the wire: age in us, site, organisation, group, CPUs, run time in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentDecision(u64, u32, u16, u16, u32, u64);

/// Request of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExchangeRequest {
    /// Identifies the sender's process.
    pub(super) point: u64,
    /// Number of the first decision that is sent.
    pub(super) first: u64,
    pub(super) decisions: Vec<SentDecision>,
    /// Number of the first decision of the receiver that the sender lacks.
    pub(super) since: u64,
    /// The receiver's process from which `since` is; 0: not known yet.
    pub(super) receiver: u64,
}

/// Response of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExchangeResponse {
    pub(super) point: u64,
    /// Number of the first decision that the other point lacks after this response.
    pub(super) next: u64,
    pub(super) decisions: Vec<SentDecision>,
}

/// What a point knows of the exchange with one peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PeerState {
    /// The peer's process; 0: not known yet.
    point: u64,
    /// Number of the first own decision that the peer lacks.
    sent: u64,
    /// Number of the first decision of the peer that this point lacks.
    since: u64,
}

/// Why an exchange is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("expected at most {MAX_BATCH} decisions, got {0}")]
    TooManyDecisions(usize),
    #[error("this decision point exchanges with {MAX_POINTS} others already")]
    TooManyPoints,
}

#[derive(Debug, Clone, Copy)]
struct Decision {
    at: u64,
    site: u32,
    job: JobRequest,
}

/// The state of a decision point.
#[derive(Debug)]
pub(super) struct Point {
    id: u64,
    view: Grid,
    /// Time from the submission of a job to its arrival at the site, ns.
    submission: u64,
    selector: Selector,
    rng: Pcg64,
    decisions: VecDeque<Decision>,
    /// Number of the first stored decision.
    first: u64,
    /// Per sender: number of the first of its decisions that is not known.
    senders: HashMap<u64, u64>,
    lost: u64,
}

impl Point {
    /// `id`: identifies this process, not 0.
    pub(super) fn new(config: &BrokerConfig, id: u64) -> Result<Self, ServiceError> {
        let sites = std::sync::Arc::new(config.grid.sites()?);
        Ok(Self {
            id,
            view: Grid::new(&config.grid, sites),
            submission: config.grid.submission_ns(),
            selector: config.selector,
            rng: Pcg64::seed_from_u64(config.seed),
            decisions: VecDeque::new(),
            first: 0,
            senders: HashMap::new(),
            lost: 0,
        })
    }

    pub(super) fn sites(&self) -> &Sites {
        self.view.sites()
    }

    /// Decisions that were removed before their job ended, because too many were stored.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Jobs in the view that have not ended.
    pub(super) fn known_jobs(&self) -> usize {
        self.view.numbers().iter().sum()
    }

    /// Chooses a site for a job that [`Sites::check`] has accepted, and stores the decision. None:
    /// no site has capacity. If the grid refuses the job afterwards, the view keeps it: its site is
    /// full, and the view should show that.
    pub(super) fn decide(&mut self, now: u64, job: &JobRequest) -> Option<u32> {
        let owner = self.sites().check(job).ok()?;
        self.view.advance(now);
        self.remove_ended(now);
        let sites = self.sites().cpus.len() as u32;
        let site = choose(
            self.selector,
            self.view.claimed(),
            sites,
            owner,
            job.cpus,
            &mut self.rng,
        )?;
        self.view.observe(now, now, site, job);
        self.decisions.push_back(Decision {
            at: now,
            site,
            job: *job,
        });
        if self.decisions.len() > MAX_STORED {
            self.decisions.pop_front();
            self.first += 1;
            self.lost += 1;
        }
        Some(site)
    }

    fn next(&self) -> u64 {
        self.first + self.decisions.len() as u64
    }

    /// Own decisions from number `since` on, at most a batch, and the number of the first of them.
    fn batch(&self, now: u64, since: u64) -> (u64, Vec<SentDecision>) {
        let first = since.clamp(self.first, self.next());
        let decisions = self
            .decisions
            .range((first - self.first) as usize..)
            .take(MAX_BATCH);
        let sent = |decision: &Decision| {
            let job = decision.job;
            let age = now.saturating_sub(decision.at) / 1000;
            SentDecision(age, decision.site, job.vo, job.group, job.cpus, job.runtime_ms)
        };
        (first, decisions.map(sent).collect())
    }

    fn observe(&mut self, now: u64, decisions: &[SentDecision]) {
        for &SentDecision(age, site, vo, group, cpus, runtime_ms) in decisions {
            let decided = now.saturating_sub(age.saturating_mul(1000));
            let job = JobRequest {
                vo,
                group,
                cpus,
                runtime_ms,
            };
            self.view.observe(now, decided, site, &job);
        }
    }

    /// The next request to a peer.
    pub(super) fn request(&self, now: u64, peer: &PeerState) -> ExchangeRequest {
        let (first, decisions) = self.batch(now, peer.sent);
        ExchangeRequest {
            point: self.id,
            first,
            decisions,
            since: peer.since,
            receiver: peer.point,
        }
    }

    /// Answers a peer.
    pub(super) fn answer(
        &mut self,
        now: u64,
        request: &ExchangeRequest,
    ) -> Result<ExchangeResponse, ExchangeError> {
        let count = request.decisions.len();
        if count > MAX_BATCH {
            return Err(ExchangeError::TooManyDecisions(count));
        }
        if self.senders.len() >= MAX_POINTS && !self.senders.contains_key(&request.point) {
            return Err(ExchangeError::TooManyPoints);
        }
        // A sender that means an earlier process begins again after this response.
        if request.receiver == 0 || request.receiver == self.id {
            let known = self.senders.entry(request.point).or_default();
            let old = known.saturating_sub(request.first).min(count as u64) as usize;
            *known = (*known).max(request.first.saturating_add(count as u64));
            self.observe(now, &request.decisions[old..]);
        }
        let since = if request.receiver == self.id {
            request.since
        } else {
            0
        };
        let (first, decisions) = self.batch(now, since);
        Ok(ExchangeResponse {
            point: self.id,
            next: first + decisions.len() as u64,
            decisions,
        })
    }

    /// Accepts the response to `request`. Returns whether another exchange should follow at once,
    /// because one of the two has more decisions or the peer has restarted.
    pub(super) fn accept(
        &mut self,
        now: u64,
        request: &ExchangeRequest,
        response: &ExchangeResponse,
        peer: &mut PeerState,
    ) -> bool {
        self.observe(now, &response.decisions);
        let is_restarted = peer.point != 0 && peer.point != response.point;
        *peer = PeerState {
            point: response.point,
            // The new process of the peer lacks also what the old one had.
            sent: if is_restarted {
                0
            } else {
                request.first + request.decisions.len() as u64
            },
            since: response.next,
        };
        is_restarted || request.decisions.len() == MAX_BATCH || response.decisions.len() == MAX_BATCH
    }

    /// Removes own decisions whose jobs have ended, because they concern nobody any more.
    fn remove_ended(&mut self, now: u64) {
        let submission = self.submission;
        let has_ended = |decision: &Decision| {
            let runtime = decision.job.runtime_ms * 1_000_000;
            decision.at.saturating_add(submission).saturating_add(runtime) < now
        };
        while self.decisions.front().is_some_and(has_ended) {
            self.decisions.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::GridConfig;
    use super::*;

    const S: u64 = 1_000_000_000;

    fn point(id: u64) -> Point {
        let config = BrokerConfig {
            grid: GridConfig {
                sites: 2,
                organisations: 1,
                groups: 1,
                cpus: [100, 100],
                policies: vec!["* * 100".into()],
                ..GridConfig::default()
            },
            seed: id,
            ..BrokerConfig::default()
        };
        Point::new(&config, id).unwrap()
    }

    fn job(cpus: u32) -> JobRequest {
        JobRequest {
            vo: 0,
            group: 0,
            cpus,
            runtime_ms: 10_000,
        }
    }

    fn exchange(now: u64, a: &mut Point, b: &mut Point, state: &mut PeerState) -> bool {
        let request = a.request(now, state);
        let response = b.answer(now, &request).unwrap();
        a.accept(now, &request, &response, state)
    }

    #[test]
    fn an_exchange_makes_the_views_equal_and_repeats_nothing() {
        let (mut a, mut b, mut state) = (point(1), point(2), PeerState::default());
        for _ in 0..3 {
            a.decide(0, &job(10)).unwrap();
            b.decide(S, &job(20)).unwrap();
        }
        assert_eq!((a.view.claimed().total(), b.view.claimed().total()), (30, 60));
        assert!(!exchange(2 * S, &mut a, &mut b, &mut state));
        assert_eq!((a.view.claimed().total(), b.view.claimed().total()), (90, 90));
        assert!(!exchange(2 * S, &mut a, &mut b, &mut state));
        assert_eq!((a.view.claimed().total(), b.view.claimed().total()), (90, 90));
        a.view.advance(10 * S);
        b.view.advance(10 * S);
        assert_eq!(
            (a.known_jobs(), b.known_jobs()),
            (3, 3),
            "the jobs of a have ended"
        );
    }

    #[test]
    fn a_lost_response_duplicates_no_decision() {
        let (mut a, mut b, mut state) = (point(1), point(2), PeerState::default());
        a.decide(0, &job(10)).unwrap();
        b.decide(0, &job(20)).unwrap();
        let lost = b.answer(S, &a.request(S, &state)).unwrap();
        assert_eq!(lost.decisions.len(), 1);
        a.decide(S, &job(10)).unwrap();
        exchange(2 * S, &mut a, &mut b, &mut state);
        assert_eq!((a.view.claimed().total(), b.view.claimed().total()), (40, 40));
    }

    #[test]
    fn a_restarted_peer_receives_the_decisions_again() {
        let (mut a, mut b, mut state) = (point(1), point(2), PeerState::default());
        a.decide(0, &job(10)).unwrap();
        exchange(S, &mut a, &mut b, &mut state);
        let mut b = point(3);
        b.decide(S, &job(20)).unwrap();
        a.decide(S, &job(10)).unwrap();
        assert!(exchange(2 * S, &mut a, &mut b, &mut state), "again");
        assert!(!exchange(2 * S, &mut a, &mut b, &mut state));
        assert_eq!((a.view.claimed().total(), b.view.claimed().total()), (40, 40));
    }

    #[test]
    fn more_decisions_than_a_batch_need_several_exchanges() {
        let (mut a, mut b, mut state) = (point(1), point(2), PeerState::default());
        let count = MAX_BATCH + 10;
        for _ in 0..count {
            a.view.observe(0, 0, 0, &job(1));
            a.decisions.push_back(Decision {
                at: 0,
                site: 0,
                job: job(1),
            });
        }
        assert!(exchange(S, &mut a, &mut b, &mut state));
        assert!(!exchange(S, &mut a, &mut b, &mut state));
        assert_eq!(b.known_jobs(), count);
        a.remove_ended(11 * S);
        assert_eq!((a.decisions.len(), a.first), (0, count as u64));
        assert!(!exchange(12 * S, &mut a, &mut b, &mut state));
    }

    #[test]
    fn hostile_exchanges_are_refused_or_ignored() {
        let mut point = point(1);
        let request = |id, decisions| ExchangeRequest {
            point: id,
            first: u64::MAX,
            decisions,
            since: u64::MAX,
            receiver: 1,
        };
        let wrong = SentDecision(u64::MAX, u32::MAX, u16::MAX, u16::MAX, u32::MAX, u64::MAX);
        point.answer(S, &request(9, vec![wrong])).unwrap();
        assert_eq!(point.known_jobs(), 0);
        let many = request(9, vec![wrong; MAX_BATCH + 1]);
        assert!(matches!(
            point.answer(S, &many),
            Err(ExchangeError::TooManyDecisions(_))
        ));
        for id in 0..MAX_POINTS as u64 - 1 {
            point.answer(S, &request(100 + id, vec![])).unwrap();
        }
        let error = point.answer(S, &request(99, vec![])).unwrap_err();
        assert_eq!(error, ExchangeError::TooManyPoints);
    }
}
