//! The simulated grid: sites that queue and run jobs. A pure state machine; times are ns since an
//! origin of the caller.
//!
//! The service `grid` has one that receives every job: the truth. Each decision point has one that
//! contains the jobs that it knows of: its view. A job occupies CPUs of the view from its decision
//! on, and runs for exactly the time that its request states. So the view differs from the truth
//! only by decisions that other points have not sent yet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use plimsoll_wire::broker::JobRequest;
use serde::Serialize;
use thiserror::Error;

use super::config::{GridConfig, Sites};
use super::policy::Owner;
use super::usage::Usage;

/// Number of jobs of a queue that are considered when CPUs become free. A job that does not fit is
/// passed by others behind it.
const MAX_CONSIDERED: usize = 64;
/// Maximum run time of a job, ms: a week.
const MAX_RUNTIME_MS: u64 = 7 * 86_400_000;

/// Why a job is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum JobError {
    #[error("vo: expected 0 to {most}, got {found}")]
    Organisation { most: u16, found: u16 },
    #[error("group: expected 0 to {most}, got {found}")]
    Group { most: u16, found: u16 },
    #[error("cpus: expected 1 to 1,000,000, got {0}")]
    Cpus(u32),
    #[error("runtime_ms: expected 1 to 604,800,000, got {0}")]
    Runtime(u64),
    #[error("site: expected 0 to {most}, got {found}")]
    Site { most: u32, found: u32 },
    #[error("the job needs {needed} CPUs, and the policies of site{site} permit it {most} at most")]
    NeverRuns { site: u32, needed: u32, most: u32 },
    #[error("the queue of site{0} is full")]
    QueueFull(u32),
    #[error("the grid has {0} jobs, which is its limit")]
    TooManyJobs(usize),
}

/// What the grid did with a valid decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The number of the job.
    Accepted(u64),
    /// The decision point refused the job.
    Refused,
    /// The grid has no place for the job now. The same request can succeed later.
    NoPlace(JobError),
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JobState {
    /// On its way to the site.
    Submitted,
    /// In the queue of the site.
    Queued,
    Running,
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    site: u32,
    owner: Owner,
    cpus: u32,
    runtime: u64,
    state: JobState,
    /// Time of its arrival in the queue.
    queued: u64,
}

/// Assessment of a decision, against a broker that knows the state of the whole grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quality {
    /// Rank of the chosen site / rank of the best site, 0 to 1. 1 if no site had free CPUs. Of a
    /// refusal: 0 if some site had capacity, else 1.
    pub(super) accuracy: f64,
    /// The chosen site had too few free CPUs for the job.
    pub(super) misplaced: bool,
    /// Some site had enough free CPUs.
    pub(super) possible: bool,
}

/// Totals since the start, which never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Totals {
    /// Decisions: submitted jobs, refusals, and jobs for which the grid had no place.
    pub(super) decisions: u64,
    /// Jobs that were submitted to a site.
    pub(super) submitted: u64,
    /// Jobs that the decision points refused.
    pub(super) jobs_refused: u64,
    /// Refused jobs for which some site had capacity.
    pub(super) jobs_refused_wrongly: u64,
    /// Jobs whose site had a full queue.
    pub(super) queue_full: u64,
    /// The part of them for which some other site had capacity.
    pub(super) queue_full_wrongly: u64,
    /// Jobs that exceeded the number of jobs of the grid.
    pub(super) over_limit: u64,
    /// Decisions for sites without capacity, also those with a full queue.
    pub(super) misplaced: u64,
    /// The part of them for which some other site had capacity.
    pub(super) misplaced_wrongly: u64,
    /// Sum of the accuracy of all decisions.
    pub(super) accuracy: f64,
    /// Jobs that began to run.
    pub(super) started: u64,
    /// Jobs that have ended.
    pub(super) done: u64,
    /// Total time of the started jobs in queues, ms.
    pub(super) queued_ms: f64,
}

impl Totals {
    fn add(&mut self, outcome: Outcome, quality: Quality) {
        let wrongly = u64::from(quality.possible);
        self.decisions += 1;
        match outcome {
            Outcome::Accepted(_) => self.submitted += 1,
            Outcome::Refused => {
                self.jobs_refused += 1;
                self.jobs_refused_wrongly += wrongly;
            }
            Outcome::NoPlace(JobError::QueueFull(_)) => {
                self.queue_full += 1;
                self.queue_full_wrongly += wrongly;
            }
            Outcome::NoPlace(_) => self.over_limit += 1,
        }
        if quality.misplaced {
            self.misplaced += 1;
            self.misplaced_wrongly += wrongly;
        }
        self.accuracy += quality.accuracy;
    }
}

/// Sites with their jobs.
#[derive(Debug)]
pub(super) struct Grid {
    sites: Arc<Sites>,
    submission: u64,
    max_queue: usize,
    max_jobs: usize,
    /// CPUs of running jobs.
    running: Usage,
    /// CPUs of all jobs that have not ended.
    claimed: Usage,
    jobs: HashMap<u64, Job>,
    next_job: u64,
    /// Times at which jobs arrive in their queues or end.
    events: BinaryHeap<Reverse<(u64, u64)>>,
    queues: Vec<VecDeque<u64>>,
    /// Jobs on their way to each site and in its queue.
    waiting: Vec<usize>,
    submitted_now: usize,
    totals: Totals,
}

impl Sites {
    /// Checks a job against the numbers of organisations and groups.
    pub(super) fn check(&self, job: &JobRequest) -> Result<Owner, JobError> {
        if job.vo >= self.organisations {
            return Err(JobError::Organisation {
                most: self.organisations - 1,
                found: job.vo,
            });
        }
        if job.group >= self.groups {
            return Err(JobError::Group {
                most: self.groups - 1,
                found: job.group,
            });
        }
        if !(1..=1_000_000).contains(&job.cpus) {
            return Err(JobError::Cpus(job.cpus));
        }
        if !(1..=MAX_RUNTIME_MS).contains(&job.runtime_ms) {
            return Err(JobError::Runtime(job.runtime_ms));
        }
        Ok(Owner {
            vo: job.vo,
            group: job.group,
        })
    }
}

impl Grid {
    pub(super) fn new(config: &GridConfig, sites: Arc<Sites>) -> Self {
        Self {
            submission: config.submission_ns(),
            max_queue: config.queue,
            max_jobs: config.jobs,
            running: Usage::new(sites.clone()),
            claimed: Usage::new(sites.clone()),
            jobs: HashMap::new(),
            next_job: 1,
            events: BinaryHeap::new(),
            queues: vec![VecDeque::new(); sites.cpus.len()],
            waiting: vec![0; sites.cpus.len()],
            submitted_now: 0,
            totals: Totals::default(),
            sites,
        }
    }

    pub(super) fn sites(&self) -> &Arc<Sites> {
        &self.sites
    }

    /// CPUs of all jobs that have not ended, also of those that wait.
    pub(super) fn claimed(&self) -> &Usage {
        &self.claimed
    }

    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Numbers of jobs that are submitted, queued and running.
    pub(super) fn numbers(&self) -> [usize; 3] {
        let queued = self.queues.iter().map(VecDeque::len).sum();
        let running = self.jobs.len() - self.submitted_now - queued;
        [self.submitted_now, queued, running]
    }

    /// CPUs of running jobs at all sites.
    pub(super) fn busy(&self) -> u64 {
        self.running.total()
    }

    /// State of a job, and its site if it has not ended. None: there was no such job.
    pub(super) fn state(&self, job: u64) -> Option<(JobState, Option<u32>)> {
        match self.jobs.get(&job) {
            Some(job) => Some((job.state, Some(job.site))),
            None => (1..self.next_job)
                .contains(&job)
                .then_some((JobState::Done, None)),
        }
    }

    /// Carries out everything that happens until `now`.
    pub(super) fn advance(&mut self, now: u64) {
        while let Some(&Reverse((at, id))) = self.events.peek()
            && at <= now
        {
            self.events.pop();
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            let site = job.site;
            if job.state == JobState::Submitted {
                job.state = JobState::Queued;
                job.queued = at;
                self.submitted_now -= 1;
                self.queues[site as usize].push_back(id);
            } else {
                let (owner, cpus) = (job.owner, job.cpus);
                self.jobs.remove(&id);
                self.running.remove(site, owner, cpus);
                self.claimed.remove(site, owner, cpus);
                self.totals.done += 1;
            }
            self.start_jobs(site as usize, at);
        }
    }

    /// Starts the jobs of a queue for which CPUs are free.
    fn start_jobs(&mut self, site: usize, at: u64) {
        let mut index = 0;
        for _ in 0..MAX_CONSIDERED {
            let Some(&id) = self.queues[site].get(index) else {
                break;
            };
            let Some(job) = self.jobs.get_mut(&id) else {
                self.queues[site].remove(index);
                continue;
            };
            if self.running.capacity(job.site, job.owner) < job.cpus {
                index += 1;
                continue;
            }
            self.running.add(job.site, job.owner, job.cpus);
            job.state = JobState::Running;
            self.totals.started += 1;
            // In a view, CPUs may become free at an earlier time, by a decision that arrives late.
            let start = at.max(job.queued);
            self.totals.queued_ms += (start - job.queued) as f64 / 1e6;
            self.events.push(Reverse((start.saturating_add(job.runtime), id)));
            self.waiting[site] -= 1;
            self.queues[site].remove(index);
        }
    }

    /// Adds a job that was decided at `decided`, which may be earlier than `now`. None: there are
    /// too many jobs. Does not check its values.
    fn insert(&mut self, decided: u64, site: u32, owner: Owner, job: &JobRequest) -> Option<u64> {
        if self.jobs.len() >= self.max_jobs {
            return None;
        }
        let id = self.next_job;
        self.next_job += 1;
        let at = decided.saturating_add(self.submission);
        self.jobs.insert(
            id,
            Job {
                site,
                owner,
                cpus: job.cpus,
                runtime: job.runtime_ms * 1_000_000,
                state: JobState::Submitted,
                queued: at,
            },
        );
        self.claimed.add(site, owner, job.cpus);
        self.events.push(Reverse((at, id)));
        self.waiting[site as usize] += 1;
        self.submitted_now += 1;
        Some(id)
    }

    /// Adds a decision to a view. One whose job must have ended by now changes nothing, and is not
    /// added.
    pub(super) fn observe(&mut self, now: u64, decided: u64, site: u32, job: &JobRequest) {
        let end = decided
            .saturating_add(self.submission)
            .saturating_add(job.runtime_ms.saturating_mul(1_000_000));
        let Ok(owner) = self.sites.check(job) else { return };
        if end > now && (site as usize) < self.sites.cpus.len() {
            self.insert(decided, site, owner, job);
            self.advance(now);
        }
    }

    /// Assesses the decision for a site, or to refuse the job.
    fn assess(&self, owner: Owner, cpus: u32, site: Option<u32>) -> Quality {
        let mut best = 0;
        let mut possible = false;
        for site in 0..self.sites.cpus.len() as u32 {
            best = best.max(self.claimed.rank(site, owner));
            possible |= self.claimed.capacity(site, owner) >= cpus;
        }
        let accuracy = match site {
            None => f64::from(u8::from(!possible)),
            Some(_) if best == 0 => 1.0,
            Some(site) => self.claimed.rank(site, owner) as f64 / best as f64,
        };
        Quality {
            accuracy,
            misplaced: site.is_some_and(|site| self.claimed.capacity(site, owner) < cpus),
            possible,
        }
    }

    /// Accepts a decision: a job for a site, or, without a site, the refusal of a job. Returns what
    /// becomes of the job, and the quality of the decision. Every valid decision has a quality and
    /// is counted, also one for a site with a full queue.
    pub(super) fn submit(
        &mut self,
        now: u64,
        site: Option<u32>,
        job: &JobRequest,
    ) -> Result<(Outcome, Quality), JobError> {
        let owner = self.sites.check(job)?;
        self.advance(now);
        if let Some(site) = site {
            self.check_site(site, owner, job.cpus)?;
        }
        let quality = self.assess(owner, job.cpus, site);
        let outcome = match site {
            None => Outcome::Refused,
            Some(site) if self.is_full(site, quality) => Outcome::NoPlace(JobError::QueueFull(site)),
            Some(site) => match self.insert(now, site, owner, job) {
                Some(id) => Outcome::Accepted(id),
                None => Outcome::NoPlace(JobError::TooManyJobs(self.max_jobs)),
            },
        };
        self.totals.add(outcome, quality);
        self.advance(now);
        Ok((outcome, quality))
    }

    /// Whether the queue of a site has no place for a job. Jobs on their way count, so that no
    /// queue becomes longer. A job that could start at once needs no place.
    fn is_full(&self, site: u32, quality: Quality) -> bool {
        quality.misplaced && self.waiting[site as usize] >= self.max_queue
    }

    fn check_site(&self, site: u32, owner: Owner, needed: u32) -> Result<(), JobError> {
        let count = self.sites.cpus.len() as u32;
        if site >= count {
            return Err(JobError::Site {
                most: count - 1,
                found: site,
            });
        }
        let most = self.claimed.greatest_capacity(site, owner);
        if most < needed {
            return Err(JobError::NeverRuns { site, needed, most });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn grid(rules: &[&str], queue: usize) -> Grid {
        let config = GridConfig {
            sites: 2,
            organisations: 2,
            groups: 1,
            cpus: [10, 10],
            policies: rules.iter().map(|&rule| rule.into()).collect(),
            submission_ms: 1000,
            queue,
            jobs: 20,
            ..GridConfig::default()
        };
        let sites = Arc::new(config.sites().unwrap());
        Grid::new(&config, sites)
    }

    fn job(vo: u16, cpus: u32, runtime_s: u64) -> JobRequest {
        JobRequest {
            vo,
            group: 0,
            cpus,
            runtime_ms: runtime_s * 1000,
        }
    }

    #[test]
    fn a_job_is_submitted_queued_running_and_done() {
        let mut grid = grid(&["* * 100"], 10);
        let (first, quality) = grid.submit(0, Some(0), &job(0, 10, 5)).unwrap();
        assert!((quality.accuracy - 1.0).abs() < 1e-9 && !quality.misplaced);
        let (second, quality) = grid.submit(0, Some(0), &job(1, 4, 5)).unwrap();
        assert!(quality.accuracy.abs() < 1e-9 && quality.misplaced && quality.possible);
        let (Outcome::Accepted(first), Outcome::Accepted(second)) = (first, second) else {
            panic!("{first:?} {second:?}");
        };
        let mut states = |at| {
            grid.advance(at);
            [first, second].map(|id| grid.state(id).unwrap().0)
        };
        assert_eq!(states(S - 1), [JobState::Submitted, JobState::Submitted]);
        assert_eq!(states(S), [JobState::Running, JobState::Queued]);
        assert_eq!(states(6 * S - 1), [JobState::Running, JobState::Queued]);
        assert_eq!(states(6 * S), [JobState::Done, JobState::Running]);
        assert_eq!(states(11 * S), [JobState::Done, JobState::Done]);
        assert_eq!(grid.state(3), None);
        let totals = grid.totals();
        assert_eq!((totals.submitted, totals.started, totals.done), (2, 2, 2));
        assert_eq!((totals.misplaced, totals.misplaced_wrongly), (1, 1));
        assert!((totals.queued_ms - 5000.0).abs() < 1e-6);
        assert_eq!(
            (grid.numbers(), grid.busy(), grid.claimed().total()),
            ([0, 0, 0], 0, 0)
        );
    }

    #[test]
    fn a_small_job_passes_a_large_one_that_waits() {
        let mut grid = grid(&["* * 100"], 10);
        for cpus in [8, 10, 2] {
            grid.submit(0, Some(0), &job(0, cpus, 5)).unwrap();
        }
        grid.advance(2 * S);
        assert_eq!(grid.numbers(), [0, 1, 2]);
        assert_eq!(grid.busy(), 10);
    }

    #[test]
    fn the_accuracy_compares_with_the_best_site() {
        let mut grid = grid(&["* * 100"], 10);
        grid.submit(0, Some(0), &job(0, 4, 5)).unwrap();
        let (_, quality) = grid.submit(0, Some(0), &job(0, 1, 5)).unwrap();
        assert!((quality.accuracy - 0.6).abs() < 1e-9, "6 of 10 CPUs: {quality:?}");
        let (outcome, quality) = grid.submit(0, None, &job(0, 5, 5)).unwrap();
        let found = (outcome, quality.accuracy, quality.possible);
        assert_eq!(found, (Outcome::Refused, 0.0, true));
        let (_, quality) = grid.submit(0, None, &job(0, 11, 5)).unwrap();
        assert_eq!((quality.accuracy, quality.possible), (1.0, false));
        let totals = grid.totals();
        assert_eq!((totals.jobs_refused, totals.jobs_refused_wrongly), (2, 1));
        assert_eq!(totals.decisions, 4);
    }

    #[test]
    fn jobs_that_could_never_run_are_refused_and_are_no_decisions() {
        let mut grid = grid(&["site0 vo0 50+"], 1);
        let mut submit = |site, job| grid.submit(0, Some(site), &job).map(|_| ());
        let never = JobError::NeverRuns {
            site: 0,
            needed: 6,
            most: 5,
        };
        assert_eq!(submit(0, job(0, 6, 1)), Err(never));
        let site = submit(2, job(0, 1, 1));
        assert!(matches!(site, Err(JobError::Site { .. })), "{site:?}");
        let organisation = submit(0, job(2, 1, 1));
        assert!(matches!(organisation, Err(JobError::Organisation { .. })));
        assert_eq!(submit(0, job(0, 1, 0)), Err(JobError::Runtime(0)));
        assert_eq!(grid.totals(), Totals::default());
    }

    #[test]
    fn jobs_without_a_place_are_counted_and_have_a_quality() {
        let mut grid = grid(&["site0 vo0 50+"], 1);
        let mut submit = |now, site, job| grid.submit(now, Some(site), &job).unwrap();
        assert_eq!(submit(0, 0, job(0, 5, 1)).0, Outcome::Accepted(1));
        let (outcome, quality) = submit(0, 0, job(0, 1, 1));
        assert_eq!(outcome, Outcome::NoPlace(JobError::QueueFull(0)));
        assert!(quality.accuracy.abs() < 1e-9 && quality.misplaced && quality.possible);
        let (outcome, _) = submit(S, 0, job(0, 1, 1));
        assert_eq!(outcome, Outcome::Accepted(2), "the first one has started");
        // The other site has CPUs for 10 of these, which are on their way.
        for _ in 0..12 {
            submit(S, 1, job(0, 1, 100));
        }
        let totals = grid.totals();
        assert_eq!((totals.decisions, totals.submitted), (15, 12));
        assert_eq!((totals.queue_full, totals.queue_full_wrongly), (3, 1));
        assert_eq!((totals.misplaced, totals.misplaced_wrongly), (4, 2));
        assert_eq!(totals.over_limit, 0);
    }

    #[test]
    fn jobs_above_the_limit_of_the_grid_are_counted() {
        let mut grid = grid(&["* * 100"], 100);
        for number in 1..=21 {
            let (outcome, _) = grid.submit(0, Some(0), &job(0, 1, 100)).unwrap();
            let expected = match number {
                21 => Outcome::NoPlace(JobError::TooManyJobs(20)),
                number => Outcome::Accepted(number),
            };
            assert_eq!(outcome, expected);
        }
        let totals = grid.totals();
        assert_eq!((totals.submitted, totals.over_limit), (20, 1));
        assert_eq!((totals.decisions, totals.queue_full), (21, 0));
    }

    #[test]
    fn a_late_decision_changes_a_view_as_if_it_had_been_known() {
        let (mut early, mut late) = (grid(&["* * 100"], 10), grid(&["* * 100"], 10));
        early.observe(S, S, 0, &job(0, 7, 10));
        late.advance(5 * S);
        late.observe(5 * S, S, 0, &job(0, 7, 10));
        let owner = Owner { vo: 0, group: 0 };
        for at in [6, 11, 12, 13] {
            let capacities = [&mut early, &mut late].map(|view| {
                view.advance(at * S);
                view.claimed().capacity(0, owner)
            });
            assert_eq!(capacities, [if at < 12 { 3 } else { 10 }; 2], "at {at} s");
        }
        late.observe(60 * S, S, 0, &job(0, 7, 10));
        assert!(late.jobs.is_empty(), "its job has ended");
    }
}
