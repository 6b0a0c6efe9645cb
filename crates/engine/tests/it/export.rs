//! The export of traces to the formats of other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{ENGINE, TestDirectory};

const LOG: &str = r#"7 1700000000.000000 openat(AT_FDCWD, "/data/in", O_RDONLY) = 3 <0.000010>
7 1700000000.000100 read(3, ""..., 4096) = 4096 <0.000020>
7 1700000000.000200 read(3, ""..., 4096) = 100 <0.000020>
7 1700000000.000300 read(3, "", 4096) = 0 <0.000005>
7 1700000000.000400 close(3) = 0 <0.000003>
7 1700000000.000500 rename("/data/in", "/data/my old") = 0 <0.000030>
7 1700000000.000600 openat(AT_FDCWD, "/data/no", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000004>
7 1700000000.000700 +++ exited with 0 +++
"#;

fn engine(arguments: &[&Path]) -> Output {
    let output = Command::new(ENGINE).arg("trace").args(arguments).output();
    output.unwrap()
}

/// Imports the log and returns the trace file.
fn trace(temp: &TestDirectory) -> PathBuf {
    let (log, trace) = (temp.0.join("job.log"), temp.0.join("job.trace"));
    fs::write(&log, LOG).unwrap();
    let done = engine(&["import".as_ref(), "-o".as_ref(), &trace, &log]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    trace
}

/// The exported file, the line for the lab, and the exit status.
fn export(trace: &Path, to: &str, more: &[&str]) -> (Vec<u8>, Value, Option<i32>) {
    let out = trace.with_extension(to);
    let mut arguments: Vec<&Path> = vec!["export".as_ref(), trace, "--to".as_ref(), to.as_ref()];
    arguments.extend(["-o".as_ref(), out.as_path()]);
    arguments.extend(more.iter().map(Path::new));
    let done = engine(&arguments);
    let stderr = String::from_utf8(done.stderr).unwrap();
    let report = serde_json::from_str(&stderr).unwrap_or_else(|_| panic!("{stderr}"));
    (fs::read(&out).unwrap(), report, done.status.code())
}

#[test]
fn each_format_is_written_and_the_omitted_events_are_counted() {
    let temp = TestDirectory::new("export");
    let trace = trace(&temp);
    let (csv, report, status) = export(&trace, "csv", &[]);
    assert_eq!(status, Some(0));
    assert_eq!(report["format"], "plimsoll.trace.export/1");
    assert_eq!(report["left_out"], json!({}));
    assert_eq!(report["incomplete"], Value::Null);
    let rows = String::from_utf8(csv).unwrap().lines().count() as u64 - 1;
    assert_eq!(
        (&report["events"], &report["written"]),
        (&json!(rows), &json!(rows))
    );

    let (parquet, report, _) = export(&trace, "parquet", &[]);
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    assert_eq!(report["written"], rows);

    let (dxt, report, _) = export(&trace, "dxt", &[]);
    let dxt = String::from_utf8(dxt).unwrap();
    let reads = dxt.lines().filter(|line| line.starts_with(" X_POSIX"));
    assert_eq!(reads.count(), 2);
    assert_eq!(
        (&report["written"], &report["left_out"]["no_data"]),
        (&json!(2), &json!(1))
    );

    let (fio, report, _) = export(&trace, "fio", &["--root", "copy"]);
    let expected = "fio version 3 iolog\n101 copy/data/in add\n101 copy/data/in open\n101 copy/data/in read 0 4096\n\
                    201 copy/data/in read 4096 100\n401 copy/data/in close\n";
    assert_eq!(String::from_utf8(fio).unwrap(), expected);
    assert_eq!(report["left_out"]["failed"], 1);
    let files: Vec<_> = fs::read_dir(&temp.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(
        files.len(),
        6,
        "not only the log, the trace and the exports: {files:?}"
    );
}

#[test]
fn a_cut_or_damaged_trace_is_exported_up_to_the_fault() {
    let temp = TestDirectory::new("export-cut");
    let trace = trace(&temp);
    let bytes = fs::read(&trace).unwrap();
    let (whole, ..) = export(&trace, "csv", &[]);
    let cut = temp.0.join("cut.trace");
    fs::write(&cut, &bytes[..bytes.len() - 3]).unwrap();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let wrong = temp.0.join("wrong.trace");
    fs::write(&wrong, damaged).unwrap();
    for (file, why) in [(&cut, "without its end"), (&wrong, "damaged at byte")] {
        let (exported, report, status) = export(file, "csv", &[]);
        assert_eq!((exported == whole, status), (true, Some(1)));
        assert!(report["incomplete"].as_str().unwrap().contains(why), "{report}");
    }
}

#[test]
fn a_file_that_is_not_a_trace_leaves_no_output() {
    let temp = TestDirectory::new("export-none");
    let (log, out) = (temp.0.join("job.log"), temp.0.join("out"));
    fs::write(&log, LOG).unwrap();
    let done = engine(&[
        "export".as_ref(),
        &log,
        "--to".as_ref(),
        "csv".as_ref(),
        "-o".as_ref(),
        &out,
    ]);
    assert!(!done.status.success());
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(stderr.contains("not a trace file"), "{stderr}");
    assert_eq!(fs::read_dir(&temp.0).unwrap().count(), 1);
}
