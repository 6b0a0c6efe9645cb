//! Measures the speed of importing logs; the trace file is discarded: `cargo run --release
//! --example import LOG...`
//!
//! The work of each thread, independent of the load of the machine, is counted by `valgrind
//! --tool=callgrind --separate-threads=yes target/release/examples/import LOG`.
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::fs::File;
use std::io::{self, BufReader};
use std::time::Instant;

use plimsoll_trace::header::{Header, Recorder};
use plimsoll_trace::import::{Importer, Log};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let since = Instant::now();
        let log = File::open(&path)?;
        let bytes = log.metadata()?.len();
        let mut importer = Importer::new(io::sink(), &Header::new(Recorder::Strace, 0))?;
        importer.logs(vec![Log {
            pid: 1,
            text: Box::new(BufReader::new(log)),
        }])?;
        let (_, footer) = importer.finish(None, None)?;
        let mb_s = bytes as f64 / since.elapsed().as_secs_f64() / 1e6;
        println!(
            "{path}: {} lines, {} events; {mb_s:.0} MB/s",
            footer.lines, footer.events
        );
    }
    Ok(())
}
