//! Whether descriptors are followed as strace itself does it: logs that were made with `-y` are read without the names in them,
//! and each name is held against the one that the open file was opened by. `cargo run --release --example names LOG...`
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::HashMap;
use std::fs;

use plimsoll_trace::follow::Follower;
use plimsoll_trace::kernel::FileId;
use plimsoll_trace::syscalls::Argument;
use plimsoll_trace::text::value::{self, Arguments};

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let log = fs::read(&path)?;
        let mut follower = Follower::new();
        let mut names: HashMap<FileId, Vec<u8>> = HashMap::new();
        let (mut same, mut other) = (0, 0);
        let mut hear = |_: &_, seen: &plimsoll_trace::follow::Seen<'_>| {
            let Some(known) = seen.known else { return };
            let at = |kind| {
                let place = known.arguments.iter().position(|&one| one == kind)?;
                value::descriptor(Arguments::of(seen.call.arguments).nth(place)?)
            };
            let returned = seen.call.ended.and_then(|ended| ended.name);
            let pairs = [
                (seen.touched.file, at(Argument::Fd).or(returned)),
                (seen.touched.other, at(Argument::Out)),
            ];
            for (file, told) in pairs {
                let (Some(file), Some(told)) = (file, told.and_then(|one| one.name)) else {
                    continue;
                };
                let name = names.entry(file).or_insert_with(|| told.to_vec());
                if name == told {
                    same += 1;
                } else {
                    other += 1;
                    if other <= 4 {
                        let words = String::from_utf8_lossy;
                        println!(
                            "  {file:?} was {}: {} {}({})",
                            words(name),
                            seen.call.pid,
                            words(seen.call.name),
                            words(seen.call.arguments)
                        );
                    }
                }
            }
        };
        for text in log.split(|&byte| byte == b'\n') {
            follower.line(text, 1, &mut hear);
        }
        follower.end(&mut hear);
        println!(
            "{path}: {same} names as followed, {other} others; {:?}, {} endless",
            follower.trouble(),
            follower.endless()
        );
    }
    Ok(())
}
