//! Checks that descriptors are followed as by strace: logs that were made with `-y` are read
//! without their paths, and each path is compared with the one that was followed. `cargo run
//! --release --example names LOG...`
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::fs;

#[path = "../tests/held/mod.rs"]
mod held;

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let result = held::compare_with_names(&fs::read(&path)?);
        println!(
            "{path}: {} descriptors agree with strace, {} differ; {} paths of files agree, {} differ; {:?}, {} calls without an end",
            result.same,
            result.others.len(),
            result.named,
            result.misnamed.len(),
            result.trouble,
            result.endless
        );
        for words in result.others.iter().take(4).chain(result.misnamed.iter().take(4)) {
            println!("  {words}");
        }
    }
    Ok(())
}
