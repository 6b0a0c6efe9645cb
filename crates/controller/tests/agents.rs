//! Faulty agents: of another version, or silent at any time. They are scripts that send prepared
//! frames.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

use std::fs;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use plimsoll_controller::{AgentCommand, control};
use plimsoll_link::{Frame, ToController};
use plimsoll_model::{Counters, HostFacts, SecondReport};
use serde_json::{Value, json};

const VERSION: &str = "1.2.3";
/// Far longer than any step takes; a step that reaches it does not end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a script does after it has sent its frames.
const SILENCE: &str = "exec sleep 3600";
const END: &str = "exit 0";

/// A directory that is removed at the end of the test.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-agents-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The lab's side of a controller.
struct Lab {
    commands: PipeWriter,
    events: mpsc::Receiver<Value>,
    controller: JoinHandle<()>,
}

impl Lab {
    fn start(agent: AgentCommand) -> Self {
        let (input, commands) = pipe().unwrap();
        let (events, output) = pipe().unwrap();
        let (_, signals) = mpsc::channel();
        let controller = std::thread::spawn(move || control(input, output, signals, agent, VERSION).unwrap());
        let mut lab = Self {
            commands,
            events: Self::read(events),
            controller,
        };
        assert_eq!(lab.next()["type"], "hello");
        lab
    }

    fn read(events: PipeReader) -> mpsc::Receiver<Value> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(events).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        receiver
    }

    fn next(&mut self) -> Value {
        self.events.recv_timeout(TIMEOUT).expect("the controller hangs")
    }

    /// Requests a run. Returns all events up to the one that ends it.
    fn run(&mut self, directory: &Path) -> Vec<Value> {
        writeln!(
            self.commands,
            "{}",
            json!({"type": "run", "spec": spec(directory)})
        )
        .unwrap();
        let mut events = vec![self.next()];
        while !["finished", "refused"].contains(&events[events.len() - 1]["type"].as_str().unwrap()) {
            events.push(self.next());
        }
        events
    }

    fn quit(mut self) {
        writeln!(self.commands, "{}", json!({"type": "quit"})).unwrap();
        self.controller.join().unwrap();
    }
}

fn spec(directory: &Path) -> Value {
    json!({
        "format": "plimsoll.run/1", "experiment": "test", "run": "0001", "directory": directory, "seed": 1,
        "warmup_ns": 0, "end": {"duration_ns": 3_600_000_000_000_u64, "each_tester": null, "transactions": null},
        "drain_ns": 1_000_000_000, "keep": "all",
        "workloads": [{
            "name": "main", "driver": "null", "settings": {}, "endpoints": [{"name": "a", "url": "null:"}],
            "choose": "per-request", "order": "round-robin", "timeout_ns": 1_000_000_000,
            "on_error": {"kind": "continue"}, "operations": [{"name": "o", "weight": 1.0, "request": {}}],
            "values": {}, "load": {"kind": "closed", "testers": 1, "think": {"kind": "fixed", "ns": 1_000_000}},
        }],
        "watch": [], "tester_cpus": [], "spin_ns": 0, "ceiling": [],
    })
}

/// An agent that sends these messages and then executes `then`.
fn agent(temp: &Path, messages: &[Value], then: &str, silence: Duration) -> AgentCommand {
    let mut frames = BytesMut::new();
    let mut number = 0;
    for message in messages {
        let body = serde_json::to_vec(message).unwrap().into();
        let frame = if message["type"] == "hello" {
            Frame::Greeting(body)
        } else {
            number += 1;
            Frame::Message { number, body }
        };
        frame.write(&mut frames).unwrap();
    }
    let file = temp.join("said");
    fs::write(&file, frames).unwrap();
    // The script is called with the further arguments `--fd N`. Only bash accepts descriptors above
    // 9.
    let script = format!("cat '{}' >&$2; {then}", file.display());
    AgentCommand {
        program: "bash".into(),
        arguments: ["-c", &script, "agent"].map(Into::into).to_vec(),
        silence,
    }
}

fn said(message: &ToController) -> Value {
    serde_json::to_value(message).unwrap()
}

/// One test, because a controller ends all descendants of its process, and these would include the
/// agents of another test.
#[test]
fn faulty_and_silent_agents_are_reported_and_the_run_ends() {
    let temp = TestDirectory::new();
    let link = plimsoll_model::format::LINK_VERSION;
    let hello = json!({"type": "hello", "link": link, "version": VERSION, "pid": 1});
    let second = SecondReport {
        counters: Counters {
            started: 7,
            succeeded: 7,
            ..Counters::default()
        },
        ..SecondReport::default()
    };
    let second = said(&ToController::Second(second));
    let facts = said(&ToController::Facts(HostFacts::default()));
    let prepared = said(&ToController::Prepared);
    let short = Duration::from_millis(300);

    let other = json!({"type": "hello", "link": link + 5, "version": "9.8.7", "pid": 1, "dialect": "new"});
    let own = format!("version {VERSION} (link {link})");
    let theirs = format!("the agent is version 9.8.7 (link {})", link + 5);
    let same_link = json!({"type": "hello", "link": link, "version": "1.2.4", "pid": 1});
    // Messages of the agent, what it does then, and texts of the refusal.
    let mute = ["the agent is lost", "no data was received for 0.6 s"]; // the greeting has twice the time
    let silent = ["the agent is lost", "no data was received for 0.3 s"];
    let refused: [(&[Value], &str, &[&str]); 5] = [
        (&[other], END, &[&own, &theirs]),
        (&[same_link], END, &[&own, "1.2.4"]),
        (from_ref(&prepared), END, &["is not a greeting"]),
        (&[], SILENCE, &mute),
        (from_ref(&hello), SILENCE, &silent),
    ];
    for (number, (messages, then, expected)) in refused.iter().enumerate() {
        // On a busy machine a script may need longer than the short timeout to send its greeting.
        let silence = if *then == END { TIMEOUT } else { short };
        let run = temp.0.join(format!("refused-{number}"));
        let mut lab = Lab::start(agent(&temp.0, messages, then, silence));
        let event = lab.run(&run).pop().unwrap();
        let error = event["error"].as_str().unwrap();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
        assert!(!run.join("segments").exists(), "nothing was measured");
        lab.quit();
    }

    let run = temp.0.join("lost");
    let silence = Duration::from_secs(5);
    let mut lab = Lab::start(agent(
        &temp.0,
        &[hello, facts, prepared, second],
        SILENCE,
        silence,
    ));
    let events = lab.run(&run);
    let lost: Vec<&Value> = events
        .iter()
        .filter(|event| event["kind"] == "agent-lost")
        .collect();
    assert_eq!(lost.len(), 1, "{events:?}");
    let finished = &events[events.len() - 1];
    assert_eq!(
        (&finished["type"], &finished["status"], &finished["balanced"]),
        (&json!("finished"), &json!("agent-lost"), &json!(false))
    );
    let reason = finished["reason"].as_str().unwrap();
    assert!(reason.contains("no data was received for 5 s"), "{reason}");
    assert!(reason.contains("had reported 7 transactions"), "{reason}");
    let summary: Value = serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    assert_eq!(
        (&summary["status"], &summary["agents"][0]["lost"]),
        (&json!("agent-lost"), &json!(true))
    );
    lab.quit();
}
