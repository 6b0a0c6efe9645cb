//! The binary. All code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll_engine::main()
}
