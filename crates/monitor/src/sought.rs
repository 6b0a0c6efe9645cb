//! A process of somebody else that is watched: it may be missing, end, and come again.

use std::path::Path;
use std::sync::Arc;

use plimsoll_model::HostWatch;

use crate::MonitorEvent;
use crate::find::find_in;
use crate::rows::Rows;
use crate::tree::{Tree, Units};

/// Between two looks for a process that is missing: each walks over all processes of a host that is
/// not ours.
const EVERY_NS: i64 = 2_000_000_000;

pub(crate) struct Sought {
    wanted: HostWatch,
    component: Arc<str>,
    tree: Option<Tree>,
    /// When it is looked for again; none: no more, as its number may be another's by then.
    look_ns: Option<i64>,
    /// Its absence was told.
    missed: bool,
}

impl Sought {
    pub(crate) fn new(wanted: &HostWatch) -> Self {
        Self {
            component: format!("service:{}", wanted.name).into(),
            wanted: wanted.clone(),
            tree: None,
            look_ns: Some(i64::MIN),
            missed: false,
        }
    }

    /// One reading at `now_ns`. A process that is there from the beginning is nothing to tell.
    pub(crate) fn sample(
        &mut self,
        proc: &Path,
        units: Units,
        now_ns: i64,
        seconds: Option<f64>,
        rows: &mut Rows,
    ) -> Option<MonitorEvent> {
        let found = self.look(proc, now_ns);
        let Some(tree) = &mut self.tree else {
            return found;
        };
        if !tree.sample(proc, units, seconds, rows) {
            return found;
        }
        self.tree = None;
        self.missed = true;
        self.look_ns = self.wanted.pid.is_none().then_some(now_ns + EVERY_NS);
        Some(MonitorEvent::WatchLost(format!("{} has ended", self.wanted.name)))
    }

    fn look(&mut self, proc: &Path, now_ns: i64) -> Option<MonitorEvent> {
        if self.tree.is_some() || self.look_ns.is_none_or(|due| now_ns < due) {
            return None;
        }
        match find_in(proc, &self.wanted) {
            Ok(found) => {
                self.tree = Some(Tree::new(self.component.clone(), found.pid));
                let text = format!("{} is there, as process {}", self.wanted.name, found.pid);
                std::mem::take(&mut self.missed).then_some(MonitorEvent::WatchFound(text))
            }
            Err(text) => {
                self.look_ns = self.wanted.pid.is_none().then_some(now_ns + EVERY_NS);
                let first = !std::mem::replace(&mut self.missed, true);
                first.then_some(MonitorEvent::WatchLost(text))
            }
        }
    }
}
