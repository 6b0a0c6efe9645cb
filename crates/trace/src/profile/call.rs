//! Calls by their names.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::counts::{Kind, count_of};
use super::json::CallKind;
use super::quick::Map;
use super::time::Spent;
use crate::constants;
use crate::event::{Event, Outcome};
use crate::syscalls::{Argument, Effect, Syscall};

/// What all calls of a name have in common, and what came of them.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) call: &'static Syscall,
    /// It has an offset of its own, and leaves that of the open file alone.
    pub(super) is_positioned: bool,
    /// It tells the size of a file.
    pub(super) tells_size: bool,
    /// It is a call, or one of several requests of a call, and no remark of the trace.
    pub(super) is_call: bool,
    count: u64,
    errors: Vec<(u16, u64)>,
    bytes: u64,
    time: Spent,
    /// Durations without the median cost of tracing, ns.
    durations: Histogram<u64>,
}

/// Calls by their names, each with the place at which it occurred first.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// By address: the table of calls has each once.
    places: Map<usize, Kind>,
    list: Vec<Named>,
}

impl Calls {
    /// Place of a call.
    pub(super) fn kind(&mut self, call: &'static Syscall) -> Kind {
        let list = &mut self.list;
        *self
            .places
            .entry(std::ptr::from_ref(call).addr())
            .or_insert_with(|| {
                list.push(Named::new(call));
                // The table has some hundred calls.
                (list.len() - 1) as Kind
            })
    }

    /// The call at a place that [`Calls::kind`] gave.
    pub(super) fn named(&mut self, kind: Kind) -> &mut Named {
        &mut self.list[usize::from(kind)]
    }

    /// Its name.
    pub(super) fn name(&self, kind: Kind) -> &'static str {
        self.list[usize::from(kind)].call.name
    }

    /// Those that were made, what took most time first.
    pub(super) fn told(&self, has_durations: bool, is_corrected: bool) -> Vec<CallKind> {
        let made = self.list.iter().filter(|named| named.is_call && named.count > 0);
        let mut told: Vec<_> = made
            .map(|named| named.told(has_durations, is_corrected))
            .collect();
        let time = |kind: &CallKind| kind.time.map_or(0.0, |time| time.best_s());
        told.sort_by(|a, b| {
            time(b)
                .total_cmp(&time(a))
                .then(b.count.cmp(&a.count))
                .then(a.name.cmp(&b.name))
        });
        told
    }
}

impl Named {
    fn new(call: &'static Syscall) -> Self {
        let moves_data = matches!(call.effect, Effect::Read | Effect::Write);
        Self {
            call,
            is_positioned: moves_data && call.arguments.contains(&Argument::Offset),
            tells_size: call.arguments.contains(&Argument::Status),
            is_call: !matches!(call.effect, Effect::Released | Effect::Exited),
            count: 0,
            errors: Vec::new(),
            bytes: 0,
            time: Spent::default(),
            // Two digits are a valid precision (0 to 5), so this cannot fail.
            durations: Histogram::new(2).unwrap_or_else(|_| unreachable!("2 significant digits are allowed")),
        }
    }

    /// One more of them.
    pub(super) fn add(&mut self, event: &Event, spent: Option<&Spent>) {
        self.count += 1;
        match event.outcome {
            Outcome::Failed(errno) => count_of(&mut self.errors, errno, 1),
            Outcome::Returned(value) if self.moves_data() => {
                self.bytes = self.bytes.saturating_add(u64::try_from(value).unwrap_or(0));
            }
            _ => {}
        }
        if let Some(spent) = spent {
            self.time.add(spent);
            // It resizes itself, so that every number fits.
            let _ = self.durations.record(spent.corrected);
        }
    }

    fn moves_data(&self) -> bool {
        use Effect::{Read, Receive, Send, Transfer, Write};
        matches!(self.call.effect, Read | Write | Transfer | Send | Receive)
    }

    fn told(&self, has_durations: bool, is_corrected: bool) -> CallKind {
        let errors = self
            .errors
            .iter()
            .map(|&(errno, count)| (constants::error_name(errno), count));
        let durations = (!self.durations.is_empty()).then_some(&self.durations);
        let quantile = |share: f64| durations.map(|it| it.value_at_quantile(share) as f64 / 1e9);
        CallKind {
            name: self.call.name.to_owned(),
            effect: effect_name(self.call.effect),
            count: self.count,
            errors: errors.collect::<BTreeMap<_, _>>(),
            bytes: self.bytes,
            time: has_durations.then(|| self.time.times(is_corrected)),
            mean_s: durations.map(|it| self.time.corrected as f64 / 1e9 / it.len() as f64),
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            max_s: durations.map(|it| it.max() as f64 / 1e9),
        }
    }
}

/// As in the table of calls: `CloseRange` is `close-range`.
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
