//! Measures the speed of this host: a fixed computation, and its disk.
//!
//! The results are compared between the hosts of an experiment. If a host differs from the others
//! by more than a tenth, the results depend on the host on which a tester runs.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use plimsoll_link::{Baseline, Line, Measure, ToController};

/// Number of bytes per write to the disk.
const BLOCK: usize = 1024 * 1024;
/// Maximum size of the file with which the disk is measured, bytes. It is removed afterwards.
const MAX_DISK: u64 = 512 * 1024 * 1024;

/// Measures in a separate thread and sends the result.
pub(crate) fn measure(request: &Measure, line: Line) {
    let span = Duration::from_nanos(request.for_ns);
    let work = move || {
        let (disk_write_bytes_s, disk_read_bytes_s) = disk(span).ok().unzip();
        let baseline = Baseline {
            cpu_per_s: cpu(span),
            disk_write_bytes_s,
            disk_read_bytes_s,
        };
        let _ = line.send(&ToController::Measured(baseline));
    };
    let _ = std::thread::Builder::new().name("baseline".into()).spawn(work);
}

/// Rounds per second of a computation on one core that needs only the first-level cache.
fn cpu(span: Duration) -> f64 {
    let (mut rounds, mut state) = (0_u64, 1_u64);
    let since = Instant::now();
    while since.elapsed() < span {
        for _ in 0..10_000 {
            state = black_box(state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        rounds += 10_000;
    }
    black_box(state);
    rounds as f64 / since.elapsed().as_secs_f64()
}

/// Bytes/s written to a file of the current directory and synced, and bytes/s when it is read
/// again.
fn disk(span: Duration) -> io::Result<(f64, f64)> {
    let name = "baseline.tmp";
    let measured = write_and_read(name, span);
    let _ = fs::remove_file(name);
    measured
}

fn write_and_read(name: &str, span: Duration) -> io::Result<(f64, f64)> {
    // Pseudo-random bytes: zeros would make a file system with compression look fast.
    let mut state = 1_u64;
    let block: Vec<u8> = (0..BLOCK)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut file = File::create(name)?;
    let (since, mut written) = (Instant::now(), 0_u64);
    while since.elapsed() < span && written < MAX_DISK {
        file.write_all(&block)?;
        written += BLOCK as u64;
    }
    file.sync_all()?;
    let write = written as f64 / since.elapsed().as_secs_f64();
    // SAFETY: this is advice on an open descriptor. The pages are clean; they are dropped so that
    // the file is read from the disk, not from memory.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    let (mut file, mut bytes) = (File::open(name)?, vec![0; BLOCK]);
    let (since, mut read) = (Instant::now(), 0_u64);
    while since.elapsed() < span {
        match file.read(&mut bytes)? {
            0 => break,
            count => read += count as u64,
        }
    }
    Ok((write, read as f64 / since.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_and_disk_are_measured() {
        let span = Duration::from_millis(50);
        assert!(cpu(span) > 10_000.0);
        let name = std::env::temp_dir().join(format!("plimsoll-baseline-{}", std::process::id()));
        let (write, read) = write_and_read(name.to_str().unwrap(), span).unwrap();
        assert!(write > 0.0 && read > 0.0);
        fs::remove_file(name).unwrap();
    }
}
