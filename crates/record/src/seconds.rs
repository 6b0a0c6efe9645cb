//! Merges the second reports of several sources (lanes of an agent, agents of a run).

use std::collections::BTreeMap;

use plimsoll_model::SecondReport;

use crate::Times;
use crate::histogram::NotAHistogram;

/// Merges second reports. A second is complete when every source has reported it or has ended
/// before it. Seconds are returned in order.
#[derive(Debug)]
pub struct SecondMerger {
    /// The next expected second of each source; none if the source has ended.
    next: Vec<Option<u32>>,
    open: BTreeMap<u32, OpenSecond>,
    first_open: u32,
}

/// A second for which reports are outstanding.
#[derive(Debug, Default)]
struct OpenSecond {
    report: SecondReport,
    response: Times,
    own_lateness: Times,
}

impl SecondMerger {
    /// A merger for `sources` sources, numbered from 0.
    pub fn new(sources: usize) -> Self {
        Self {
            next: vec![Some(0); sources],
            open: BTreeMap::new(),
            first_open: 0,
        }
    }

    /// Adds a report of `source`. A report for a second that was already returned is added to the
    /// next second, so that no count is lost.
    ///
    /// # Errors
    /// [`NotAHistogram`]: a histogram of the report is invalid. Its counters were added
    /// nevertheless.
    pub fn add(&mut self, source: usize, report: &SecondReport) -> Result<(), NotAHistogram> {
        let second = report.second.max(self.first_open);
        if let Some(Some(next)) = self.next.get_mut(source) {
            *next = (*next).max(report.second.saturating_add(1));
        }
        let open = self.open.entry(second).or_default();
        let sum = &mut open.report;
        sum.second = second;
        sum.counters.add(&report.counters);
        sum.active += report.active;
        sum.in_progress += report.in_progress;
        sum.stopped_ns = sum.stopped_ns.max(report.stopped_ns);
        open.response
            .add_text(&report.response)
            .and(open.own_lateness.add_text(&report.own_lateness))
    }

    /// Marks the end of the reports of `source`.
    pub fn end(&mut self, source: usize) {
        if let Some(next) = self.next.get_mut(source) {
            *next = None;
        }
    }

    /// The next complete second with its response times. None if no second is complete.
    pub fn take(&mut self) -> Option<(SecondReport, Times)> {
        let entry = self.open.first_entry()?;
        let complete = self
            .next
            .iter()
            .flatten()
            .min()
            .is_none_or(|next| next > entry.key());
        if !complete {
            return None;
        }
        let OpenSecond {
            mut report,
            response,
            own_lateness,
        } = entry.remove();
        self.first_open = report.second + 1;
        report.response = response.to_text();
        report.own_lateness = own_lateness.to_text();
        Some((report, response))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Counters;

    use super::*;

    fn report(second: u32, started: u64, ns: i64) -> SecondReport {
        let mut times = Times::default();
        times.record(ns);
        let counters = Counters {
            started,
            ..Counters::default()
        };
        SecondReport {
            second,
            counters,
            active: 1,
            in_progress: 2,
            response: times.to_text(),
            own_lateness: times.to_text(),
            stopped_ns: started,
        }
    }

    #[test]
    fn a_second_is_complete_when_all_active_sources_reported_it() {
        let mut merger = SecondMerger::new(3);
        merger.add(0, &report(0, 1, 10)).unwrap();
        merger.add(0, &report(1, 1, 10)).unwrap();
        merger.add(1, &report(0, 10, 30)).unwrap();
        assert!(merger.take().is_none());
        merger.end(2);
        let (sum, times) = merger.take().unwrap();
        assert_eq!(
            (sum.second, sum.counters.started, sum.active, sum.in_progress),
            (0, 11, 2, 4)
        );
        assert_eq!((times.count(), times.quantile_ns(1.0)), (2, Some(30)));
        assert_eq!(
            (sum.own_lateness, sum.stopped_ns),
            (sum.response, 10),
            "histograms are merged; stops: the maximum"
        );
        assert!(merger.take().is_none());
        merger.end(1);
        assert_eq!(merger.take().unwrap().0.second, 1);
        assert!(merger.take().is_none());
    }

    #[test]
    fn late_reports_and_invalid_histograms_lose_no_count() {
        let mut merger = SecondMerger::new(1);
        merger.add(0, &report(0, 1, 10)).unwrap();
        merger.take().unwrap();
        merger.add(0, &report(0, 5, 10)).unwrap();
        let mut broken = report(1, 7, 10);
        broken.response = "rubbish".into();
        assert!(merger.add(0, &broken).is_err());
        let (sum, _) = merger.take().unwrap();
        assert_eq!((sum.second, sum.counters.started), (1, 12));
    }
}
