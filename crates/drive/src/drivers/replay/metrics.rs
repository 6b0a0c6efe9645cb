//! Outcome, code and metrics of a job.
//!
//! | metric | meaning |
//! |---|---|
//! | `job_s` | time from its first action to the end of its last one |
//! | `untraced_s` | the same time in the recording, without the tracing cost |
//! | `achieved_over_recorded` | `job_s / untraced_s` |
//! | `in_calls_s` | time in calls, summed over threads |
//! | `read_s`, `write_s`, `sync_s`, `metadata_s` | part of it in calls that read data, write data, sync, and in all other calls |
//! | `read_bytes`, `write_bytes` | bytes that calls read and wrote |
//! | `mismatches`, `refusals` | calls whose result was not that of the trace; calls that the sandbox refused |
//! | `lateness_p99_us` | 99th percentile of the lateness of actions with a planned time |
//! | `CALL.calls`, `CALL.total_s`, `CALL.p50_us`, `CALL.p99_us`, `CALL.max_us` | number and times of each kind of call, with `per_call` |

use plimsoll_model::{Code, Codes, Outcome};
use plimsoll_replay::action::Operation;
use plimsoll_replay::result::{CallTimes, ReplayResult};

use crate::driver::Attempt;

/// Codes of the names of metrics.
pub(super) struct Names {
    job: Code,
    untraced: Code,
    achieved: Code,
    in_calls: Code,
    kinds: [Code; 4],
    read_bytes: Code,
    write_bytes: Code,
    mismatches: Code,
    refusals: Code,
    lateness: Code,
}

/// Index of the kind of an operation in `kinds`.
fn kind(operation: Operation) -> usize {
    use Operation as O;
    match operation {
        O::Fsync | O::Fdatasync | O::Syncfs | O::SyncRange => 2,
        // A copy within the kernel counts as a write, which usually takes most of its time.
        operation if operation.writes() => 1,
        operation if operation.reads() => 0,
        _ => 3,
    }
}

impl Names {
    pub(super) fn new(codes: &Codes) -> Self {
        Self {
            job: codes.number("job_s"),
            untraced: codes.number("untraced_s"),
            achieved: codes.number("achieved_over_recorded"),
            in_calls: codes.number("in_calls_s"),
            kinds: ["read_s", "write_s", "sync_s", "metadata_s"].map(|name| codes.number(name)),
            read_bytes: codes.number("read_bytes"),
            write_bytes: codes.number("write_bytes"),
            mismatches: codes.number("mismatches"),
            refusals: codes.number("refusals"),
            lateness: codes.number("lateness_p99_us"),
        }
    }

    /// Sets outcome, code and metrics of a job that has ended.
    pub(super) fn report(&self, job: &ReplayResult, per_call: bool, attempt: &mut Attempt) {
        attempt.items = job.performed;
        attempt.payload = job.read_bytes + job.write_bytes;
        self.add_metrics(job, attempt);
        if per_call {
            for (call, times) in &job.by_call {
                add_call_metrics(call, times, attempt);
            }
        }
        if job.is_faithful() {
            attempt.conclude(Outcome::Ok, Code::NONE);
        } else {
            let (code, note) = difference(job);
            let code = attempt.code_of(&code);
            attempt.conclude(Outcome::Wrong, code);
            attempt.note = Some(format!("a job differs from its trace: {note}"));
        }
    }

    fn add_metrics(&self, job: &ReplayResult, attempt: &mut Attempt) {
        let mut in_calls = [0.0; 4];
        for &operation in Operation::ALL {
            if let Some(times) = job.by_call.get(operation.name()) {
                in_calls[kind(operation)] += times.total_s;
            }
        }
        let untraced_s = job.untraced_s.middle_s;
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.sum::<u64>() as f64;
        let metrics = &mut attempt.metrics;
        metrics.push((self.job, job.wall_s));
        metrics.push((self.untraced, untraced_s));
        if untraced_s > 0.0 {
            metrics.push((self.achieved, job.wall_s / untraced_s));
        }
        metrics.push((self.in_calls, in_calls.iter().sum()));
        metrics.extend(self.kinds.into_iter().zip(in_calls));
        metrics.push((self.read_bytes, job.read_bytes as f64));
        metrics.push((self.write_bytes, job.write_bytes as f64));
        metrics.push((
            self.mismatches,
            sum(&mut job.mismatches.iter().map(|mismatch| mismatch.count)),
        ));
        metrics.push((
            self.refusals,
            sum(&mut job.refusals.iter().map(|refusal| refusal.count)),
        ));
        if job.lateness.count > 0 {
            metrics.push((self.lateness, job.lateness.p99_us));
        }
    }
}

fn add_call_metrics(call: &str, times: &CallTimes, attempt: &mut Attempt) {
    let metrics = [
        ("calls", times.count as f64),
        ("total_s", times.total_s),
        ("p50_us", times.times.p50_us),
        ("p99_us", times.times.p99_us),
        ("max_us", times.times.max_us),
    ];
    for (metric, value) in metrics {
        let name = attempt.code_of(&format!("{call}.{metric}"));
        attempt.metrics.push((name, value));
    }
}

/// Code and note of a job whose results differ from the trace.
fn difference(job: &ReplayResult) -> (String, String) {
    if let Some(mismatch) = job.mismatches.first() {
        let code = format!("{}: {}, was {}", mismatch.call, mismatch.got, mismatch.recorded);
        let example = mismatch
            .examples
            .first()
            .map_or("", |example| example.path.as_str());
        let note = format!("{} x {code} ({example})", mismatch.count);
        return (code, note);
    }
    if let Some(refusal) = job.refusals.first() {
        let example = refusal.examples.first().map_or("", String::as_str);
        let note = format!(
            "{} x {} refused: {} ({example})",
            refusal.count, refusal.call, refusal.why
        );
        return (format!("{} refused", refusal.call), note);
    }
    if job.lost > 0 {
        let note = format!(
            "{} calls were not made, because their file could not be opened",
            job.lost
        );
        return ("lost".to_owned(), note);
    }
    let note = format!(
        "{} calls stopped waiting for other calls, because these took too long",
        job.waits.let_go
    );
    ("let go".to_owned(), note)
}
