//! Prints the profile of logs of strace as JSON, and on stderr the speed of its computation. `cargo
//! run --release --example profile LOG...`
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::fs;
use std::time::Instant;

use plimsoll_trace::event::Event;
use plimsoll_trace::follow::Follower;
use plimsoll_trace::header::{Footer, Header, Recorder};
use plimsoll_trace::profile::{Choice, Profiler};

const ROUNDS: usize = 7;

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let text = fs::read(&path)?;
        let mut follower = Follower::new();
        let mut events: Vec<Event> = Vec::new();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            follower.line(line, 1, &mut |_, seen| events.push(*seen.event));
        }
        follower.end(&mut |_, seen| events.push(*seen.event));
        let header = Header {
            zero_unix_ns: follower.timeline().zero_unix_ns(),
            has_durations: events.iter().any(|event| event.duration_ns.is_some()),
            ..Header::new(Recorder::Strace, 1000)
        };
        let footer = Footer {
            events: events.len() as u64,
            lines: follower.lines(),
            ..Footer::default()
        };

        // The machine may be busy, so the fastest of several rounds is the cost of the profile.
        let rounds = (0..ROUNDS).map(|_| {
            let start = Instant::now();
            let mut profiler = Profiler::new(&header, Choice::default());
            for block in events.chunks(16_384) {
                profiler.take(follower.kernel().names(), block);
            }
            (start.elapsed(), profiler)
        });
        let Some((elapsed, profiler)) = rounds.min_by_key(|round| round.0) else {
            continue;
        };
        let start = Instant::now();
        let profile = profiler.finish(follower.kernel().names(), Some(&footer));
        let rate = events.len() as f64 / elapsed.as_secs_f64();
        eprintln!(
            "{path}: {} events, {rate:.0}/s; finished after {:?}",
            events.len(),
            start.elapsed()
        );
        println!("{}", serde_json::to_string(&profile)?);
    }
    Ok(())
}
