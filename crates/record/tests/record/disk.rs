//! Tests with disks that hang or are full.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plimsoll_model::{Codes, Transaction};
use plimsoll_record::synthetic::Mix;
use plimsoll_record::{ClockReading, LaneSink, Recorder, RecorderConfig, SideWriter, convert};

use crate::{Run, T0, config, converted, expected, rows, start, write};

/// A recorder whose disk hangs: its file is a pipe, which accepts 64 KiB and then blocks until a
/// reader reads from it.
fn hanging(run: &Run, codes: &Codes) -> (Recorder, LaneSink, PathBuf) {
    let pipe = run.segments().join("local-000.pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success(), "mkfifo is part of every system");
    let config = RecorderConfig {
        queue: 8,
        ..config(&run.segments(), codes.clone())
    };
    // Opened for reading and writing, because opening a pipe for one of them waits for the other.
    let open = |path: &Path| {
        fs::File::options()
            .read(true)
            .write(true)
            .open(path.with_extension("pipe"))
    };
    let (recorder, mut sinks) = Recorder::start_with_files(config, open).unwrap();
    (recorder, sinks.remove(0), pipe)
}

/// Passes 400 batches of 1,000 transactions to a recorder whose disk hangs. Returns the number of
/// lost transactions.
fn overload(sink: &mut LaneSink, codes: &Codes) -> u64 {
    let rows: Vec<Transaction> = Mix::new(10, T0, codes).take(1_000).collect();
    (0..400).map(|_| sink.deliver(&mut rows.clone()) as u64).sum()
}

/// Does `work` on another thread, and fails if that takes longer than 60 s.
fn in_time<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result
        .recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{name} waits for the disk"))
}

#[test]
fn a_hanging_disk_blocks_neither_testers_nor_the_end_of_the_run() {
    let run = Run::new("hang");
    let codes = Codes::default();
    let (recorder, mut sink, _) = hanging(&run, &codes);
    let lost = in_time("a tester", move || overload(&mut sink, &codes));
    assert!(lost > 0);
    // The queue remains full: the last message cannot be sent either.
    let totals = in_time("the end", move || {
        recorder.finish_within(Duration::from_millis(300))
    });
    assert_eq!(totals.damage.len(), 1, "{:?}", totals.damage);
    assert!(
        totals.damage[0].contains("did not finish within 0.3 s because the disk does not respond"),
        "{:?}",
        totals.damage
    );
    // 64 KiB is less than the first batch of Arrow, so no batch was written completely.
    assert_eq!(totals.discarded + lost, 400_000);
}

#[test]
fn a_disk_that_hung_temporarily_loses_only_the_counted_transactions() {
    let run = Run::new("stall");
    let codes = Codes::default();
    let (recorder, mut sink, pipe) = hanging(&run, &codes);
    let lost = in_time("a tester", move || overload(&mut sink, &codes));
    assert!(lost > 0);
    // The disk responds again.
    let mut disk = fs::File::open(pipe).unwrap();
    let mut segment = fs::File::create(run.segments().join("local-000.arrow")).unwrap();
    let copying = std::thread::spawn(move || std::io::copy(&mut disk, &mut segment).unwrap());
    let totals = in_time("the end", move || recorder.finish());
    assert_eq!((totals.discarded, totals.damage), (0, vec![]));
    // The recorder had the only writing end of the pipe.
    copying.join().unwrap();
    let conversion = converted(&run);
    assert_eq!(conversion.damage, Vec::<String>::new());
    assert_eq!(conversion.tally().counters.started + lost, 400_000);
}

/// A file system of 4 MiB in memory, unmounted with the test; none if mounting is not permitted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(&path)
            .stderr(std::process::Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(path))
    }

    /// Fills the disk except `pages` pages of 4 KiB.
    fn fill_except(&self, pages: usize) {
        let filler = self.0.join("filler");
        let _ = fs::remove_file(&filler);
        let mut file = fs::File::create(&filler).unwrap();
        let mut written = 0;
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {
            written += 1;
        }
        file.set_len(4096 * (written - pages.min(written)) as u64)
            .unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_conversion_that_failed_on_a_full_disk_is_repeated_without_loss() {
    let run = Run::new("small");
    let Some(disk) = SmallDisk::mount(run.0.join("disk")) else {
        println!("SKIPPED: mounting a small tmpfs needs root");
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "under CI a skipped test is a failure"
        );
        return;
    };
    let inside = Run(disk.0.join("0001"));
    fs::create_dir_all(inside.segments()).unwrap();
    let codes = Codes::default();
    let transactions: Vec<Transaction> = Mix::new(11, T0, &codes).take(10_000).collect();
    write(&inside, &transactions, &codes, 300_000);
    let mut clock = SideWriter::<ClockReading>::new(
        &inside.segments(),
        &config(&inside.segments(), codes.clone()).origin(),
    );
    let readings = (0..5_000).map(|raw_ns| ClockReading {
        raw_ns: T0 + raw_ns,
        monotonic_ns: raw_ns * 7_919 % 5_003,
        realtime_ns: raw_ns * 104_729 % 5_003,
    });
    clock.write(&readings.collect::<Vec<_>>()).unwrap();
    clock.finish().1.unwrap();
    let segments = || fs::read_dir(inside.segments()).unwrap().count();
    let before = segments();
    let (mut failures, mut half) = (0, false);
    // With increasing space the conversion fails at later steps: before the first byte, in between,
    // at the end, and after the first of the two tables.
    let conversion = (0..)
        .find_map(|pages| {
            disk.fill_except(pages);
            match convert(&inside.0, &start()) {
                Ok(conversion) => Some(conversion),
                Err(error) => {
                    assert!(error.to_string().contains("No space left"), "{error}");
                    assert_eq!(segments(), before, "with {pages} pages free");
                    let part = |name: &str| inside.0.join(format!("{name}.parquet.part")).exists();
                    assert!(
                        !part("transactions") && !part("clock"),
                        "the space of temporary files is freed"
                    );
                    failures += 1;
                    half |= inside.0.join("transactions.parquet").exists();
                    None
                }
            }
        })
        .unwrap();
    assert!(failures > 10 && half, "{failures} failures");
    assert_eq!(conversion.damage, Vec::<String>::new());
    assert_eq!(conversion.tally().counters.started, 10_000);
    conversion.clean_up(false);
    assert!(!inside.segments().exists());
    assert_eq!(
        rows(&inside.0.join("transactions.parquet")),
        expected(&transactions, &codes)
    );
    let clock =
        ParquetRecordBatchReaderBuilder::try_new(fs::File::open(inside.0.join("clock.parquet")).unwrap());
    assert_eq!(clock.unwrap().metadata().file_metadata().num_rows(), 5_000);
}
