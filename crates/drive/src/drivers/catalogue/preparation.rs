//! The entries of a transaction: those of the data set, or own ones that are made before its start.

use plimsoll_model::NOT_HAPPENED;
use plimsoll_schedule::Value;

use super::Tester;
use super::connection::Part;
use super::error::OperationError;
use super::rucio::Token;
use super::settings::{By, Operation, Work};
use super::steps::{KnownEntry, MODES, Step, insertion, links};
use crate::driver::{Attempt, Waiting};

impl Tester {
    /// The entries of a transaction. Inserts own ones if the operation needs more than there are.
    pub(super) async fn entries(
        &mut self,
        work: Work,
        endpoint: usize,
        attempt: &mut Attempt,
    ) -> Result<Vec<KnownEntry>, OperationError> {
        if self.is_rucio(endpoint) && !self.tokens[endpoint].as_ref().is_some_and(Token::is_fresh) {
            self.log_in(endpoint, Part::Own, attempt).await?;
            forget_preparation(attempt);
        }
        match work.operation {
            Operation::Query if work.by == By::Link => {
                let missing = work.bulk.saturating_sub(self.links[endpoint].len());
                let entries = self.new_links(missing);
                let steps = links(&entries);
                self.make(endpoint, steps, &entries, attempt).await?;
                let links = &mut self.links[endpoint];
                links.extend(entries);
                links.rotate_left(work.bulk);
                Ok(links.range(links.len() - work.bulk..).cloned().collect())
            }
            Operation::Query | Operation::GetAcl => Ok(self.data_entries(work.bulk)),
            Operation::ForbiddenAcl => {
                let mut entries = self.data_entries(work.bulk);
                entries.iter_mut().for_each(KnownEntry::change_acl);
                Ok(entries)
            }
            Operation::List => Ok(Vec::new()),
            Operation::Insert => Ok(self.new_entries("/grid/new", work.bulk)),
            Operation::Link => Ok(self.new_links(work.bulk)),
            Operation::Forbidden => Ok(self.new_entries("/grid/private", work.bulk)),
            Operation::Delete | Operation::Chmod | Operation::SetAcl => {
                let missing = work.bulk.saturating_sub(self.own[endpoint].len());
                let entries = self.new_entries("/grid/new", missing);
                if missing > 0 {
                    let steps = vec![insertion(&entries)];
                    self.make(endpoint, steps, &entries, attempt).await?;
                    self.own[endpoint].extend(entries);
                }
                let mut entries: Vec<_> = self.own[endpoint].drain(..work.bulk).collect();
                for entry in &mut entries {
                    match work.operation {
                        Operation::Chmod => entry.mode = MODES[usize::from(entry.mode == MODES[0])],
                        Operation::SetAcl => entry.change_acl(),
                        _ => {}
                    }
                }
                Ok(entries)
            }
        }
    }

    /// Makes entries or links that a transaction needs, before its start.
    async fn make(
        &mut self,
        endpoint: usize,
        steps: Vec<Step>,
        entries: &[KnownEntry],
        attempt: &mut Attempt,
    ) -> Result<(), OperationError> {
        for step in self.spoken(endpoint, steps) {
            self.exchange(endpoint, &step, entries, Part::Own, attempt)
                .await?;
        }
        forget_preparation(attempt);
        Ok(())
    }

    /// Entries of the data set.
    fn data_entries(&mut self, count: usize) -> Vec<KnownEntry> {
        let data = self.driver.data;
        (0..count)
            .map(|_| KnownEntry::of_data(&data, self.draw()))
            .collect()
    }

    /// Entries of the data set, through new links.
    fn new_links(&mut self, count: usize) -> Vec<KnownEntry> {
        let paths = self.new_paths("/grid/new", count);
        let entries = self.data_entries(count).into_iter().zip(paths);
        entries.map(|(entry, path)| entry.through_link(path)).collect()
    }

    fn new_entries(&mut self, directory: &str, count: usize) -> Vec<KnownEntry> {
        let paths = self.new_paths(directory, count);
        paths.into_iter().map(KnownEntry::new).collect()
    }

    fn new_paths(&mut self, directory: &str, count: usize) -> Vec<String> {
        let (token, tester, first) = (self.driver.token, self.number, self.inserted);
        self.inserted += count as u64;
        (first..self.inserted)
            .map(|number| format!("{directory}/{token:x}-{tester}-{number}"))
            .collect()
    }

    /// The number of an entry of the data set, from 0.
    pub(super) fn draw(&mut self) -> u64 {
        match self.driver.keys.draw(&[0], &mut self.draws) {
            [Value::Number(number)] => (*number - 1).max(0) as u64,
            _ => 0,
        }
    }
}

/// The transaction begins only after its preparation.
fn forget_preparation(attempt: &mut Attempt) {
    (attempt.connected, attempt.session) = (NOT_HAPPENED, 0);
    attempt.metrics.clear();
    attempt.waiting = Waiting::Connect;
}
