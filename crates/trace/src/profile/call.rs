//! Counts and times of calls by name.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::counts::{Kind, count_of};
use super::json::CallKind;
use super::quick::Map;
use super::time::TracedTime;
use crate::constants;
use crate::event::{Event, Outcome};
use crate::syscalls::{Argument, Effect, Syscall};

/// Properties, counts and times of all calls with a name.
#[derive(Debug)]
pub(super) struct CallStatistics {
    pub(super) call: &'static Syscall,
    /// Whether the call has an offset of its own and does not use that of the open file.
    pub(super) is_positioned: bool,
    /// Whether the call returns the size of a file.
    pub(super) returns_size: bool,
    /// Whether this is a call or one of its requests, not an implied event.
    pub(super) is_call: bool,
    count: u64,
    errors: Vec<(u16, u64)>,
    bytes: u64,
    time: TracedTime,
    /// Durations minus the median tracing cost, ns.
    durations: Histogram<u64>,
}

/// Calls by name, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Indices in `list` by address of the call, which is in the table once.
    indices: Map<usize, Kind>,
    list: Vec<CallStatistics>,
}

impl Calls {
    /// The index of a call.
    pub(super) fn kind(&mut self, call: &'static Syscall) -> Kind {
        let list = &mut self.list;
        *self
            .indices
            .entry(std::ptr::from_ref(call).addr())
            .or_insert_with(|| {
                list.push(CallStatistics::new(call));
                // The table has a few hundred calls, so the index fits.
                (list.len() - 1) as Kind
            })
    }

    /// The call with an index of [`Calls::kind`].
    pub(super) fn named(&mut self, kind: Kind) -> &mut CallStatistics {
        &mut self.list[usize::from(kind)]
    }

    /// The name of a call.
    pub(super) fn name(&self, kind: Kind) -> &'static str {
        self.list[usize::from(kind)].call.name
    }

    /// The calls that were made, those with most time first.
    pub(super) fn to_json(&self, has_durations: bool, is_corrected: bool) -> Vec<CallKind> {
        let made = self.list.iter().filter(|named| named.is_call && named.count > 0);
        let mut calls: Vec<_> = made
            .map(|named| named.to_json(has_durations, is_corrected))
            .collect();
        let time = |kind: &CallKind| kind.time.map_or(0.0, |time| time.best_s());
        calls.sort_by(|a, b| {
            time(b)
                .total_cmp(&time(a))
                .then(b.count.cmp(&a.count))
                .then(a.name.cmp(&b.name))
        });
        calls
    }
}

impl CallStatistics {
    fn new(call: &'static Syscall) -> Self {
        let transfers_data = matches!(call.effect, Effect::Read | Effect::Write);
        Self {
            call,
            is_positioned: transfers_data && call.arguments.contains(&Argument::Offset),
            returns_size: call.arguments.contains(&Argument::Status),
            is_call: !matches!(call.effect, Effect::Released | Effect::Exited),
            count: 0,
            errors: Vec::new(),
            bytes: 0,
            time: TracedTime::default(),
            // Two digits are a valid precision (0 to 5), so this cannot fail.
            durations: Histogram::new(2).unwrap_or_else(|_| unreachable!("2 significant digits are allowed")),
        }
    }

    /// Adds a call.
    pub(super) fn add(&mut self, event: &Event, spent: Option<&TracedTime>) {
        self.count += 1;
        match event.outcome {
            Outcome::Failed(errno) => count_of(&mut self.errors, errno, 1),
            Outcome::Returned(value) if self.transfers_data() => {
                self.bytes = self.bytes.saturating_add(u64::try_from(value).unwrap_or(0));
            }
            _ => {}
        }
        if let Some(spent) = spent {
            self.time.add(spent);
            // The histogram resizes itself, so this cannot fail.
            let _ = self.durations.record(spent.corrected);
        }
    }

    fn transfers_data(&self) -> bool {
        use Effect::{Read, Receive, Send, Transfer, Write};
        matches!(self.call.effect, Read | Write | Transfer | Send | Receive)
    }

    fn to_json(&self, has_durations: bool, is_corrected: bool) -> CallKind {
        let errors = self
            .errors
            .iter()
            .map(|&(errno, count)| (constants::error_name(errno), count));
        let durations = (!self.durations.is_empty()).then_some(&self.durations);
        let quantile =
            |share: f64| durations.map(|histogram| histogram.value_at_quantile(share) as f64 / 1e9);
        CallKind {
            name: self.call.name.to_owned(),
            effect: effect_name(self.call.effect),
            count: self.count,
            errors: errors.collect::<BTreeMap<_, _>>(),
            bytes: self.bytes,
            time: has_durations.then(|| self.time.times(is_corrected)),
            mean_s: durations.map(|histogram| self.time.corrected as f64 / 1e9 / histogram.len() as f64),
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            max_s: durations.map(|histogram| histogram.max() as f64 / 1e9),
        }
    }
}

/// The name of an effect as in the table of calls: `CloseRange` is `close-range`.
fn effect_name(effect: Effect) -> String {
    let mut name = String::new();
    for letter in format!("{effect:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_named_as_in_the_table() {
        assert_eq!(effect_name(Effect::CloseRange), "close-range");
        assert_eq!(effect_name(Effect::Look), "look");
    }
}
