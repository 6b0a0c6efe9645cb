//! Whether descriptors are followed as strace itself does it: logs that were made with `-y` are
//! read without the names in them, and each name is held against what was followed. `cargo run
//! --release --example names LOG...`
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::fs;

#[path = "../tests/held/mod.rs"]
mod held;

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let held = held::held(&fs::read(&path)?);
        println!(
            "{path}: {} descriptors as strace has them, {} others; {} files by their names, {} by others; {:?}, {} endless",
            held.same,
            held.others.len(),
            held.named,
            held.misnamed.len(),
            held.trouble,
            held.endless
        );
        for words in held.others.iter().take(4).chain(held.misnamed.iter().take(4)) {
            println!("  {words}");
        }
    }
    Ok(())
}
