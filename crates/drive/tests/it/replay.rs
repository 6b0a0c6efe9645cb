//! The replay driver with small traces, made of strace's text.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_drive::AgentPortion;
use plimsoll_model::{Outcome, Transaction};
use plimsoll_trace::header::{Header, Recorder};
use plimsoll_trace::import::Importer;
use serde_json::{Value, json};

use crate::harness::*;

/// Calls that read a file and write another one.
const COPY: &str = r#"openat(AT_FDCWD, "/job/in", O_RDONLY) = 3 <0.000010>
read(3, ""..., 4096) = 4096 <0.000010>
read(3, ""..., 4096) = 904 <0.000010>
close(3) = 0 <0.000010>
mkdir("/job/out", 0777) = 0 <0.000010>
openat(AT_FDCWD, "/job/out/copy", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3 <0.000010>
write(3, ""..., 5000) = 5000 <0.000010>
close(3) = 0 <0.000010>"#;

/// Calls with a pause of a minute between two of them.
const SLOW: &str = r#"mkdir("/job", 0777) = 0 <0.000010>
clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=60, tv_nsec=0}, NULL) = 0 <60.000000>
mkdir("/job/late", 0777) = 0 <0.000010>"#;

/// A directory with a trace, which is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(calls: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plimsoll-drive-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let header = Header::new(Recorder::Strace, 1000);
        let mut importer = Importer::new(Vec::new(), &header).unwrap();
        let mut at = 1_700_000_000.0;
        for call in calls.lines() {
            let line = format!("100 {at:.6} {call}");
            importer.line(line.as_bytes(), 100).unwrap();
            let took = call.rsplit_once('<').unwrap().1.trim_end_matches('>');
            at += took.parse::<f64>().unwrap() + 0.000_01;
        }
        let (file, footer) = importer.finish(None, None).unwrap();
        assert_eq!((footer.odd_lines, footer.unknown_calls), (0, 0));
        std::fs::write(path.join("job.trace"), file).unwrap();
        Self(path)
    }

    fn jobs(&self, name: &str) -> PathBuf {
        self.0.join("jobs").join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A run of jobs; `more` changes settings.
fn replays(scratch: &Scratch, testers: u32, each: u64, more: Value) -> Value {
    let mut settings = json!({
        "trace": scratch.0.join("job.trace"), "root": scratch.jobs("{tester}"), "timing": "diff", "scale": 1.0,
        "order": "resource", "map": null, "ignore": null,
        "copies": {"private": [], "shared": [], "write_shared": false},
        "prepare": "data", "compressibility": 0.5, "clean": true, "read_maps": false, "allow_root": true,
        "per_call": false,
    });
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    let end = json!({"each_tester": each});
    spec("replay", "replay:", settings, json!({}), closed(testers), end)
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[test]
fn the_directory_is_prepared_for_every_job_of_every_tester() {
    let scratch = Scratch::new(COPY);
    let whole = AgentPortion { agent: 0, agents: 1 };
    let mut going = prepare(replays(&scratch, 3, 2, json!({})), whole, None).unwrap();
    for tester in ["0", "1", "2"] {
        let job = scratch.jobs(tester).join("job");
        assert_eq!(size(&job.join("in")), 5000, "it is there before the run begins");
        assert!(!job.join("out").exists());
    }
    let bytes = |tester: &str| std::fs::read(scratch.jobs(tester).join("job/in")).unwrap();
    assert_ne!(bytes("0"), bytes("1"), "nothing finds the same data twice");
    going.go();
    let ran = going.finish();
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 6], "{:?}", ran.notes);
    assert!(
        ran.transactions
            .iter()
            .all(|t| (t.payload, t.items) == (10_000, 8))
    );
    for name in [
        "job_s",
        "untraced_s",
        "achieved_over_recorded",
        "in_calls_s",
        "metadata_s",
    ] {
        assert!(ran.metric(name).iter().all(|&value| value > 0.0), "{name}");
        assert_eq!(ran.metric(name).len(), 6, "{name}");
    }
    assert_eq!(ran.metric("read_bytes"), [5000.0; 6]);
    assert_eq!(ran.metric("write_bytes"), [5000.0; 6]);
    assert_eq!(ran.metric("mismatches"), [0.0; 6]);
    for job in ran.metric_rows("job_s") {
        let is_its = |t: &&Transaction| (t.tester, t.start) == (job.tester, job.start);
        let t = ran.transactions.iter().find(is_its).unwrap();
        let whole_ns = (t.end - t.start) as f64;
        assert!(job.value * 1e9 <= whole_ns, "a job is within its transaction");
    }
    assert!(!ran.has_code("read.calls"), "nobody has asked for each call");
    assert!(
        !scratch.jobs("").exists(),
        "everything that was created is removed"
    );
}

#[test]
fn a_job_with_missing_files_is_wrong_with_a_note() {
    let scratch = Scratch::new(COPY);
    let spec = replays(&scratch, 1, 1, json!({"prepare": "none", "per_call": true}));
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Wrong, "open: ENOENT, was ok")]);
    let has_note = |text: &str| ran.notes.iter().any(|(_, note)| note.contains(text));
    assert!(
        has_note("a job differs from its trace: 2 x open"),
        "{:?}",
        ran.notes
    );
    let all = "both opens, the directory, and five calls on what is not open";
    assert_eq!(ran.metric("mismatches"), [8.0], "{all}");
    assert_eq!(ran.metric("open.calls"), [2.0]);
    assert_eq!(ran.metric("open.p99_us").len(), 1);
}

#[test]
fn files_that_the_user_prepared_are_neither_created_nor_removed() {
    let scratch = Scratch::new(COPY);
    let mine = scratch.jobs("0").join("job");
    let kept = json!({"clean": false});
    assert_eq!(run(replays(&scratch, 1, 1, kept)).results(), [(Outcome::Ok, "")]);
    std::fs::remove_dir_all(mine.join("out")).unwrap();
    let ran = run(replays(&scratch, 1, 2, json!({"prepare": "none"})));
    let second = "open: EEXIST, was ok";
    assert_eq!(ran.results(), [(Outcome::Ok, ""), (Outcome::Wrong, second)]);
    assert_eq!(size(&mine.join("in")), 5000);
}

#[test]
fn files_of_others_in_the_directory_are_not_removed() {
    let scratch = Scratch::new(COPY);
    let mine = scratch.jobs("0").join("job");
    std::fs::create_dir_all(&mine).unwrap();
    std::fs::write(mine.join("mine"), "precious").unwrap();
    let ran = run(replays(&scratch, 1, 1, json!({"prepare": "sparse"})));
    assert_eq!(ran.results(), [(Outcome::Ok, "")]);
    assert_eq!(std::fs::read(mine.join("mine")).unwrap(), b"precious");
    assert!(!mine.join("in").exists() && !mine.join("out").exists());
    let ran = run(replays(&scratch, 1, 1, json!({"clean": false})));
    assert_eq!(ran.results(), [(Outcome::Ok, "")]);
    assert_eq!(size(&mine.join("out/copy")), 5000, "nobody has asked to clean");
}

#[test]
fn a_job_is_stopped_at_its_timeout_and_cancelled_at_the_end_of_the_drain() {
    let scratch = Scratch::new(SLOW);
    let mut spec = replays(&scratch, 1, 1, json!({}));
    spec["workloads"][0]["timeout_ns"] = json!(200 * MS);
    assert_eq!(run(spec).results(), [(Outcome::Timeout, "timeout")]);
    let mut spec = replays(&scratch, 2, 1, json!({}));
    spec["end"]["duration_ns"] = json!(100 * MS);
    spec["drain_ns"] = json!(100 * MS);
    spec["workloads"][0]["timeout_ns"] = json!(600 * SECOND);
    let ran = run(spec);
    assert_eq!(ran.results(), [(Outcome::Cancelled, ""); 2]);
    assert_eq!(ran.in_flight, 2);
    assert!(
        !scratch.jobs("").exists(),
        "the files that the jobs created are removed, too"
    );
}

#[test]
fn jobs_share_files_that_they_only_read_unless_write_shared_is_set() {
    let scratch = Scratch::new(COPY);
    let shares = |shared: Value, write_shared: bool| {
        let copies = json!({"private": [], "shared": shared, "write_shared": write_shared});
        replays(&scratch, 2, 1, json!({"copies": copies, "clean": false}))
    };
    let why = refused(shares(json!(["/job/**"]), false));
    assert!(
        why.contains("copies:") && why.contains("is shared by all jobs"),
        "{why}"
    );
    assert!(why.contains("write_shared: true"), "{why}");
    let ran = run(shares(json!(["/job/in"]), false));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
    assert_eq!(size(&scratch.jobs("shared").join("job/in")), 5000);
    for tester in ["0", "1"] {
        assert!(!scratch.jobs(tester).join("job/in").exists());
        assert_eq!(size(&scratch.jobs(tester).join("job/out/copy")), 5000);
    }
}

#[test]
fn invalid_settings_are_refused_before_anything_is_created() {
    let scratch = Scratch::new(COPY);
    for (more, expected) in [
        (json!({"trace": "/no/such.trace"}), "trace: /no/such.trace"),
        (json!({"root": scratch.jobs("all")}), "{tester}"),
        (json!({"root": "jobs/{tester}"}), "expected an absolute path"),
        (
            json!({"root": "/no/such/place/{tester}"}),
            "create it, or mount the file system",
        ),
        (json!({"map": "nonsense"}), "map: line 1"),
        (
            json!({"ignore": "/job"}),
            "of its 8 calls are on names that are ignored",
        ),
        (json!({"unknown": 1}), "unknown field"),
    ] {
        let why = refused(replays(&scratch, 1, 1, more));
        assert!(why.contains(expected), "{expected}: {why}");
    }
    assert!(!scratch.jobs("").exists());
}
