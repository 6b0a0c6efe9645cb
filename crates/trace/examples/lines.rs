//! Measures the speed of parsing the lines of logs, and prints malformed lines: `cargo run
//! --release --example lines LOG...`
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::fs;
use std::time::Instant;

use plimsoll_trace::text::value::Arguments;
use plimsoll_trace::text::{Calls, LineContent, line};

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let log = fs::read(&path)?;
        let since = Instant::now();
        let mut calls = Calls::new();
        let (mut lines, mut ended, mut halves, mut arguments) = (0_u64, 0_u64, 0_u64, 0);
        let mut odd = Vec::new();
        for text in log.split(|&byte| byte == b'\n') {
            lines += 1;
            let Some(line) = line::parse(text) else {
                odd.push(text);
                continue;
            };
            match calls.take(&line, 0, 0) {
                LineContent::Call(call) => {
                    ended += 1;
                    arguments += Arguments::of(call.arguments).count();
                }
                LineContent::End(_) => halves += 1,
                _ => {}
            }
        }
        let mb_s = log.len() as f64 / since.elapsed().as_secs_f64() / 1e6;
        println!(
            "{path}: {lines} lines, {ended} calls with {arguments} arguments, {halves} without a start, {} without an end, {} malformed lines; {mb_s:.0} MB/s",
            calls.endless(),
            odd.len()
        );
        for text in odd.iter().take(3) {
            println!("  {}", String::from_utf8_lossy(text));
        }
    }
    Ok(())
}
