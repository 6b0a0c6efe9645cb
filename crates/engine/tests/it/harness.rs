//! The lab's side of an engine, and a small run.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub const ENGINE: &str = env!("CARGO_BIN_EXE_plimsoll-engine");

/// A directory that is removed at the end of the test.
pub struct TestDirectory(pub PathBuf);

impl TestDirectory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-control-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn run(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An engine in the role of the controller, controlled by the test in the role of the lab.
pub struct Lab {
    pub process: Child,
    pub commands: Option<ChildStdin>,
    events: BufReader<ChildStdout>,
}

impl Lab {
    pub fn start() -> Self {
        Self::start_in(&[])
    }

    /// Starts it with these environment variables, which agents on this host inherit.
    pub fn start_in(environment: &[(&str, &Path)]) -> Self {
        let mut process = Command::new(ENGINE)
            .arg("control")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take();
        let events = BufReader::new(process.stdout.take().unwrap());
        let mut lab = Self {
            process,
            commands,
            events,
        };
        let hello = lab.next();
        assert_eq!(
            (&hello["type"], &hello["format"]),
            (&json!("hello"), &json!("plimsoll.engine/1"))
        );
        assert_eq!(hello["version"], env!("CARGO_PKG_VERSION"));
        lab
    }

    pub fn say(&mut self, command: &Value) {
        writeln!(self.commands.as_mut().unwrap(), "{command}").unwrap();
    }

    pub fn run(&mut self, spec: &Value) {
        self.say(&json!({"type": "run", "spec": spec}));
    }

    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(
            self.events.read_line(&mut line).unwrap() > 0,
            "the engine has ended"
        );
        serde_json::from_str(&line).unwrap()
    }

    /// Reads events up to the first one of this type. Returns all of them.
    pub fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            events.push(self.next());
            let last = &events[events.len() - 1];
            assert!(last["type"] != "refused" || kind == "refused", "{last}");
            if last["type"] == kind {
                return events;
            }
        }
    }

    pub fn finished(&mut self) -> Value {
        self.until("finished").pop().unwrap()
    }

    /// Process id of the agent, which is connected.
    pub fn agent(&self) -> i32 {
        let pid = self.process.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_ascii_whitespace().next().unwrap().parse().unwrap()
    }

    pub fn kill(pid: i32, signal: i32) {
        // SAFETY: kill has no memory effects. The test has started the process.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    pub fn wait(&mut self) {
        let since = Instant::now();
        while self.process.try_wait().unwrap().is_none() {
            assert!(
                since.elapsed() < Duration::from_secs(30),
                "the engine does not end"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.commands = None;
        let since = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && since.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A run of two testers with a think time of 1 ms.
pub fn spec(directory: &Path, duration_ns: u64) -> Value {
    json!({
        "format": "plimsoll.run/1",
        "experiment": "test",
        "run": directory.file_name().unwrap().to_str().unwrap(),
        "directory": directory,
        "seed": 1,
        "warmup_ns": 100_000_000,
        "end": {"duration_ns": duration_ns, "each_tester": null, "transactions": null},
        "drain_ns": 1_000_000_000,
        "keep": "all",
        "workloads": [{
            "name": "main",
            "driver": "null",
            "settings": {},
            "endpoints": [{"name": "nowhere", "url": "null:"}],
            "choose": "per-request",
            "order": "round-robin",
            "timeout_ns": 1_000_000_000,
            "on_error": {"kind": "continue"},
            "operations": [{"name": "nothing", "weight": 1.0, "request": {}}],
            "values": {},
            "load": {"kind": "closed", "testers": 2, "think": {"kind": "fixed", "ns": 1_000_000}},
        }],
        "watch": [],
        "tester_cpus": [],
        "spin_ns": 0,
        "ceiling": [],
    })
}

pub fn summary(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap()
}
