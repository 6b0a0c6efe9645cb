//! Embeds the preloaded recorder that `scripts/preload-library` has built. It needs its own
//! compiler flags, so cargo cannot build it as a part of the engine. Without
//! `PLIMSOLL_PRELOAD_LIBRARY` the engine contains no recorder, and reports that if it is asked to
//! record with it.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=PLIMSOLL_PRELOAD_LIBRARY");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("preload.so");
    let library = std::env::var_os("PLIMSOLL_PRELOAD_LIBRARY").map(PathBuf::from);
    let bytes = library.filter(|path| path.exists()).map(|path| {
        println!("cargo::rerun-if-changed={}", path.display());
        std::fs::read(&path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
    });
    std::fs::write(&out, bytes.unwrap_or_default())
        .unwrap_or_else(|error| panic!("writing {}: {error}", out.display()));
}
