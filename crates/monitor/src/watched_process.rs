//! A watched process, which the experiment does not start. It may be missing, end, and start again.

use std::path::Path;
use std::sync::Arc;

use plimsoll_model::HostWatch;

use crate::MonitorEvent;
use crate::find::find_in;
use crate::rows::Rows;
use crate::tree::{Tree, Units};

/// Time between two searches for a missing process. Each search reads all processes of the watched
/// host.
const SEARCH_INTERVAL_NS: i64 = 2_000_000_000;

pub(crate) struct WatchedProcess {
    wanted: HostWatch,
    component: Arc<str>,
    /// The process tree, while the process exists.
    tree: Option<Tree>,
    /// Time of the next search. None after the end of a process that is given by its PID, which may
    /// then be that of another process.
    next_search_ns: Option<i64>,
    /// Whether the absence of the process was reported.
    is_reported_missing: bool,
}

impl WatchedProcess {
    pub(crate) fn new(wanted: &HostWatch) -> Self {
        Self {
            component: format!("service:{}", wanted.name).into(),
            wanted: wanted.clone(),
            tree: None,
            next_search_ns: Some(i64::MIN),
            is_reported_missing: false,
        }
    }

    /// Takes a reading at `now_ns`. Returns an event if the process has ended, is missing for the
    /// first time, or was found after it was missing.
    pub(crate) fn sample(
        &mut self,
        proc: &Path,
        units: Units,
        now_ns: i64,
        seconds: Option<f64>,
        rows: &mut Rows,
    ) -> Option<MonitorEvent> {
        let event = self.search(proc, now_ns);
        let Some(tree) = &mut self.tree else {
            return event;
        };
        if !tree.sample(proc, units, seconds, rows) {
            return event;
        }
        self.tree = None;
        self.is_reported_missing = true;
        self.schedule_search(now_ns);
        Some(MonitorEvent::WatchLost(format!("{} has ended", self.wanted.name)))
    }

    /// The process tree, while the process exists.
    pub(crate) fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    fn schedule_search(&mut self, now_ns: i64) {
        let is_by_pid = self.wanted.pid.is_some();
        self.next_search_ns = (!is_by_pid).then_some(now_ns + SEARCH_INTERVAL_NS);
    }

    fn search(&mut self, proc: &Path, now_ns: i64) -> Option<MonitorEvent> {
        if self.tree.is_some() || self.next_search_ns.is_none_or(|due| now_ns < due) {
            return None;
        }
        match find_in(proc, &self.wanted) {
            Ok(watch) => {
                self.tree = Some(Tree::new(self.component.clone(), watch.pid));
                let text = format!("{} is running as process {}", self.wanted.name, watch.pid);
                let was_missing = std::mem::take(&mut self.is_reported_missing);
                was_missing.then_some(MonitorEvent::WatchFound(text))
            }
            Err(error) => {
                self.schedule_search(now_ns);
                let is_first = !std::mem::replace(&mut self.is_reported_missing, true);
                is_first.then(|| MonitorEvent::WatchLost(error.to_string()))
            }
        }
    }
}
