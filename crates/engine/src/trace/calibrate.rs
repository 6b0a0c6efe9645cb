//! Measures the tracing cost on this host: the same calls with and without tracing.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use plimsoll_trace::follow::{Follower, Observation};
use plimsoll_trace::header::Calibration;
use plimsoll_trace::import::each_line;
use plimsoll_trace::kernel::Kernel;
use plimsoll_trace::preload::Log;

use super::fifo::Fifo;
use super::preload::{self, RecorderDirectory};
use super::strace::Strace;

const ROUNDS: usize = 20;
const CALLS: usize = 200;
/// Length of a read, bytes: typical of applications with inefficient access patterns. The data are
/// in the page cache.
const BYTES: usize = 512;
/// The time after which the calibration fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Makes `calls` reads in each of `rounds` rounds, and prints the duration of each round, ns.
pub(super) fn spin(rounds: usize, calls: usize) -> anyhow::Result<ExitCode> {
    // The program itself: a file that exists and is in the page cache.
    let file = std::fs::File::open("/proc/self/exe").context("opening /proc/self/exe")?;
    let mut bytes = [0; BYTES];
    let mut durations = Vec::new();
    for _ in 0..rounds {
        let since = Instant::now();
        for _ in 0..calls {
            file.read_at(&mut bytes, 0)?;
        }
        durations.push(since.elapsed().as_nanos().to_string());
    }
    writeln!(std::io::stdout(), "{}", durations.join(" "))?;
    Ok(ExitCode::SUCCESS)
}

fn spinning(command: &mut Command) -> anyhow::Result<&mut Command> {
    // Under strace, /proc/self/exe would be strace.
    let own = std::env::current_exe().context("finding this program")?;
    Ok(command
        .arg(own)
        .args(["trace", "spin"])
        .args([ROUNDS.to_string(), CALLS.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null()))
}

/// The mean duration of a call in each round, ns, sorted.
fn read_rounds(text: &[u8]) -> anyhow::Result<Vec<f64>> {
    let text = std::str::from_utf8(text)?;
    let rounds: Result<Vec<f64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    let mut rounds = rounds?;
    ensure!(
        rounds.len() == ROUNDS,
        "the calibration program ended early: {} of {ROUNDS} rounds",
        rounds.len()
    );
    for ns in &mut rounds {
        *ns /= CALLS as f64;
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds)
}

/// The median, and the range that contains 90 % of sorted values.
fn spread(sorted: &[f64]) -> [f64; 3] {
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    [at(0.5), at(0.05), at(0.95)]
}

/// Measures the cost of strace with the options of a recording.
pub(super) fn strace(strace: &Strace) -> anyhow::Result<Calibration> {
    let mut plain = Command::new("/proc/self/exe");
    plain
        .args(["trace", "spin"])
        .args([ROUNDS.to_string(), CALLS.to_string()]);
    let plain = plain.stdin(Stdio::null()).output().context("measuring calls")?;
    let bare = spread(&read_rounds(&plain.stdout)?)[0];

    let mut fifo = Fifo::new().context("creating a pipe for strace")?;
    let mut command = strace.command(fifo.path().as_os_str(), false);
    let mut child = strace.start(spinning(&mut command)?)?;
    let mut log = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let since = Instant::now();
    loop {
        match fifo.read(&mut child, &mut piece, Duration::from_secs(1))? {
            Some(0) => break,
            Some(count) => log.extend_from_slice(&piece[..count]),
            None if since.elapsed() > TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                bail!(
                    "strace did not end within {} s. Record with --uncalibrated to omit the calibration",
                    TIMEOUT.as_secs()
                );
            }
            None => {}
        }
    }
    let done = child.wait_with_output()?;
    let traced = read_rounds(&done.stdout).context("strace cannot trace processes here")?;
    let mut durations = durations(&log)?;
    ensure!(
        durations.len() >= ROUNDS / 2,
        "strace recorded only {} calls of the calibration",
        durations.len() * CALLS
    );
    durations.sort_by(f64::total_cmp);
    Ok(Calibration {
        call_ns: spread(&traced).map(|ns| (ns - bare).max(0.0)),
        duration_ns: spread(&durations).map(|ns| (ns - bare).max(0.0)),
        calls: (ROUNDS * CALLS) as u64,
    })
}

/// Number of calls of a run of `dd`, and number of runs with and without the recorder.
const DD_CALLS: usize = 40_000;
const DD_RUNS: usize = 5;

/// Measures the cost of the preload recorder with `dd`: the engine itself is linked statically and
/// cannot be recorded by preload.
pub(super) fn preloaded(directory: &RecorderDirectory) -> anyhow::Result<Calibration> {
    let timed = |command: &mut Command| -> anyhow::Result<f64> {
        let since = Instant::now();
        let status = command.status().context("starting dd")?;
        ensure!(status.success(), "dd ended with {status}");
        Ok(since.elapsed().as_nanos() as f64 / DD_CALLS as f64)
    };
    let (mut bare, mut recorded, mut durations) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..DD_RUNS {
        bare.push(timed(&mut preload::dd(DD_CALLS))?);
        directory.clear()?;
        recorded.push(timed(directory.arm(&mut preload::dd(DD_CALLS)))?);
        durations.push(mean_duration(directory)?);
    }
    for all in [&mut bare, &mut recorded, &mut durations] {
        all.sort_by(f64::total_cmp);
    }
    let own = spread(&bare)[0];
    directory.clear()?;
    Ok(Calibration {
        call_ns: spread(&recorded).map(|ns| (ns - own).max(0.0)),
        // The time without the recorder includes the start of dd, so this is more likely too small
        // than too large.
        duration_ns: spread(&durations).map(|ns| (ns - own).max(0.0)),
        calls: (DD_CALLS * DD_RUNS) as u64,
    })
}

/// The mean duration of a read or write according to the recorder, ns.
fn mean_duration(directory: &RecorderDirectory) -> anyhow::Result<f64> {
    let logs = directory.read()?;
    let (mut sum, mut count) = (0_u64, 0_u64);
    for log in logs.iter().filter_map(|log| Log::parse(log.bytes()).ok()) {
        for record in log
            .records
            .filter(|record| matches!(record.call.name, "read" | "write"))
        {
            sum += record.duration_ns.unwrap_or(0);
            count += 1;
        }
    }
    ensure!(
        count as usize >= DD_CALLS / 2,
        "the recorder has recorded only {count} of {DD_CALLS} calls of dd"
    );
    Ok(sum as f64 / count as f64)
}

/// The durations of reads according to strace, ns: means over the calls of a round, as the times of
/// rounds are means. A median of single durations would not be comparable if wake-ups are either
/// fast or slow.
fn durations(log: &[u8]) -> anyhow::Result<Vec<f64>> {
    let mut all = Vec::new();
    let mut follower = Follower::new();
    each_line(log, |line| {
        follower.line(line, 1, &mut |_: &mut Kernel, seen: &Observation<'_>| {
            if seen.event.call.name == "pread64" && seen.event.length == Some(BYTES as u64) {
                all.extend(seen.event.duration_ns.map(|ns| ns as f64));
            }
        });
        Ok(())
    })?;
    Ok(all
        .chunks_exact(CALLS)
        .map(|round| round.iter().sum::<f64>() / CALLS as f64)
        .collect())
}
