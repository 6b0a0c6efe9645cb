//! Measures the tracing cost on this host: the same calls with and without tracing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_trace::file::{FileError, with_header};
use plimsoll_trace::follow::{Follower, Observation};
use plimsoll_trace::header::{Calibration, Header};
use plimsoll_trace::import::each_line;
use plimsoll_trace::kernel::Kernel;
use plimsoll_trace::preload::Log;

use crate::error::{CalibrationError, CaptureError, at, system};
use crate::fifo::Fifo;
use crate::output;
use crate::recorder_directory::RecorderDirectory;
use crate::strace::Strace;

const ROUNDS: usize = 20;
const CALLS: usize = 200;
/// Length of a read, bytes: typical of applications with inefficient access patterns. The data are
/// in the page cache.
const BYTES: usize = 512;
/// The time after which the calibration fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Makes `calls` reads in each of `rounds` rounds, and returns the duration of each round.
///
/// # Errors
/// The executable of this process cannot be opened or read.
pub fn spin(rounds: usize, calls: usize) -> Result<Vec<Duration>, CaptureError> {
    // The program itself: a file that exists and is in the page cache.
    let file = File::open("/proc/self/exe").map_err(system("opening /proc/self/exe"))?;
    let mut bytes = [0; BYTES];
    let mut durations = Vec::new();
    for _ in 0..rounds {
        let since = Instant::now();
        for _ in 0..calls {
            file.read_at(&mut bytes, 0).map_err(CaptureError::Io)?;
        }
        durations.push(since.elapsed());
    }
    Ok(durations)
}

/// Adds the arguments of a program that spins.
fn add_spin<'c>(command: &'c mut Command, spin: &[&str]) -> &'c mut Command {
    command.args(spin).args([ROUNDS.to_string(), CALLS.to_string()])
}

/// The mean duration of a call in each round, ns, sorted.
fn read_rounds(text: &[u8]) -> Result<Vec<f64>, CalibrationError> {
    let text = String::from_utf8_lossy(text);
    let rounds: Result<Vec<f64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    let mut rounds = rounds?;
    if rounds.len() != ROUNDS {
        return Err(CalibrationError::Rounds {
            found: rounds.len(),
            expected: ROUNDS,
        });
    }
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

/// Measures the cost of strace with the options of a recording. `spin` contains the arguments
/// with which this executable calls [`spin`].
pub(crate) fn strace(strace: &Strace, spin: &[&str]) -> Result<Calibration, CaptureError> {
    let mut plain = Command::new("/proc/self/exe");
    add_spin(&mut plain, spin);
    let plain = plain.stdin(Stdio::null()).output();
    let plain = plain.map_err(system("measuring calls"))?;
    let bare = spread(&read_rounds(&plain.stdout)?)[0];

    let mut fifo = Fifo::new().map_err(system("creating a pipe for strace"))?;
    let mut command = strace.command(fifo.path().as_os_str(), false);
    // Under strace, /proc/self/exe would be strace.
    command.arg(std::env::current_exe().map_err(system("finding this program"))?);
    add_spin(&mut command, spin)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = strace.start(&mut command)?;
    let mut log = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let since = Instant::now();
    loop {
        let read = fifo.read(&mut child, &mut piece, Duration::from_secs(1));
        match read.map_err(CaptureError::Io)? {
            Some(0) => break,
            Some(count) => log.extend_from_slice(&piece[..count]),
            None if since.elapsed() > TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(CalibrationError::Timeout(TIMEOUT).into());
            }
            None => {}
        }
    }
    let done = child.wait_with_output().map_err(CaptureError::Io)?;
    let traced = read_rounds(&done.stdout).map_err(|why| CalibrationError::NotTraced(Box::new(why)))?;
    let mut durations = durations(&log)?;
    if durations.len() < ROUNDS / 2 {
        return Err(CalibrationError::StraceCalls(durations.len() * CALLS).into());
    }
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
pub(crate) fn preloaded(directory: &RecorderDirectory) -> Result<Calibration, CaptureError> {
    let timed = |command: &mut Command| -> Result<f64, CaptureError> {
        let since = Instant::now();
        let status = command.status().map_err(system("starting dd"))?;
        if !status.success() {
            return Err(CalibrationError::Dd(status).into());
        }
        Ok(since.elapsed().as_nanos() as f64 / DD_CALLS as f64)
    };
    let (mut bare, mut recorded, mut durations) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..DD_RUNS {
        bare.push(timed(&mut dd(DD_CALLS))?);
        directory.clear()?;
        recorded.push(timed(directory.arm(&mut dd(DD_CALLS)))?);
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

/// A program that makes calls of known cost: `dd`, with 512 bytes per call.
fn dd(calls: usize) -> Command {
    let mut command = Command::new("dd");
    command
        .args(["if=/dev/zero", "of=/dev/null", "bs=512"])
        .arg(format!("count={}", calls / 2))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The mean duration of a read or write according to the recorder, ns.
fn mean_duration(directory: &RecorderDirectory) -> Result<f64, CaptureError> {
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
    if (count as usize) < DD_CALLS / 2 {
        let expected = DD_CALLS;
        return Err(CalibrationError::PreloadCalls {
            found: count,
            expected,
        }
        .into());
    }
    Ok(sum as f64 / count as f64)
}

/// The durations of reads according to strace, ns: means over the calls of a round, as the times of
/// rounds are means. A median of single durations would not be comparable if wake-ups are either
/// fast or slow.
fn durations(log: &[u8]) -> Result<Vec<f64>, CaptureError> {
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

/// Adds the calibration after the recording to the one before it.
pub(crate) fn calibrate_again(output: &Path, after: Option<Calibration>) -> Result<(), CaptureError> {
    let Some(after) = after else { return Ok(()) };
    let before = File::open(output).map_err(at("reading", output))?;
    output::write(output, |file| {
        let file = with_header(before, file, |header| Header {
            calibration: Some(header.calibration.map_or(after, |before| before.and(after))),
            ..header
        })?;
        Ok::<_, FileError>((file, ()))
    })?;
    Ok(())
}
