//! Clocks of agents that dial in: probes are sent over UDP, or over the link if no port is free for
//! the time service.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; its helpers are tests too"
)]

use std::fs;
use std::io::{BufRead, BufReader, PipeWriter, Write, pipe};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::StringArray;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plimsoll_agent::{Source, no_signals, run_agent};
use plimsoll_controller::{AgentCommand, control};
use plimsoll_link::dial::Dialer;
use plimsoll_link::token::Token;
use serde_json::{Value, json};

const VERSION: &str = "1.2.3";
/// Far longer than any step takes; a step that reaches it does not end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A controller and one agent that has dialled in, both in threads of this process.
struct Session {
    temp: PathBuf,
    commands: PipeWriter,
    events: mpsc::Receiver<Value>,
    controller: JoinHandle<()>,
    agent: Option<JoinHandle<()>>,
}

impl Session {
    fn start(name: &str, port: u16) -> (Self, u16) {
        let temp = std::env::temp_dir().join(format!("plimsoll-time-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&temp);
        fs::create_dir_all(temp.join("results/runs/0001")).unwrap();
        let (input, commands) = pipe().unwrap();
        let (read, output) = pipe().unwrap();
        let how = AgentCommand {
            program: "false".into(),
            arguments: Vec::new(),
            silence: TIMEOUT,
        };
        let controller = std::thread::spawn(move || {
            let (_, signals) = mpsc::channel();
            control(input, output, signals, how, VERSION).unwrap();
        });
        let (sender, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(read).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let mut session = Self {
            temp,
            commands,
            events,
            controller,
            agent: None,
        };
        session.say(&json!({
            "type": "listen", "experiment": "e", "address": "127.0.0.1", "ports": [port, port], "quic": true,
        }));
        let token = session.until("listening")["token"].clone();
        let time_port = token["time_port"].as_u64().unwrap() as u16;
        let dialer = Dialer::new(&Token::parse(token.to_string().as_bytes()).unwrap(), VERSION).unwrap();
        let directory = session.temp.join("agent");
        session.agent = Some(std::thread::spawn(move || {
            let source = Source::Dial(Box::new(dialer));
            run_agent(
                source,
                Some(&directory),
                Some("far".into()),
                VERSION,
                no_signals(),
            )
            .unwrap();
        }));
        session.until("joined");
        (session, time_port)
    }

    fn say(&mut self, command: &Value) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.events.recv_timeout(TIMEOUT).expect("the controller hangs");
            assert!(event["type"] != "refused", "{event}");
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// The controller's report on the agent's clock.
    fn clock(&mut self) -> Value {
        self.say(&json!({"type": "check", "agents": [far()]}));
        let host = self.until("host");
        self.until("checked");
        let clock = host["facts"]["clock"].clone();
        // All processes have the same clock, so the true offset is 0.
        let (offset, bound) = (
            clock["offset_ns"].as_i64().unwrap(),
            clock["bound_ns"].as_i64().unwrap(),
        );
        assert!(bound > 0 && offset.abs() <= bound, "{host}");
        clock
    }

    fn quit(mut self) {
        self.say(&json!({"type": "quit"}));
        self.controller.join().unwrap();
        self.agent.take().unwrap().join().unwrap();
        fs::remove_dir_all(&self.temp).unwrap();
    }
}

fn far() -> Value {
    json!({"name": "far", "host": "h", "site": "s", "start": {"kind": "joined"}})
}

fn run(session: &mut Session) -> Vec<String> {
    let directory = session.temp.join("results/runs/0001");
    let spec = json!({
        "format": "plimsoll.run/1", "experiment": "test", "run": "0001", "directory": directory, "seed": 1,
        "warmup_ns": 0, "end": {"duration_ns": 1_000_000_000, "each_tester": null, "transactions": null},
        "drain_ns": 1_000_000_000, "keep": "all",
        "workloads": [{
            "name": "main", "driver": "null", "settings": {}, "endpoints": [{"name": "a", "url": "null:"}],
            "choose": "per-request", "order": "round-robin", "timeout_ns": 1_000_000_000,
            "on_error": {"kind": "continue"}, "operations": [{"name": "o", "weight": 1.0, "request": {}}],
            "values": {}, "load": {"kind": "closed", "testers": 1, "think": {"kind": "fixed", "ns": 1_000_000}},
        }],
        "watch": [], "tester_cpus": [], "spin_ns": 0, "ceiling": [],
    });
    session.say(&json!({"type": "run", "spec": spec, "agents": [far()]}));
    let finished = session.until("finished");
    assert_eq!(finished["balanced"], true, "{finished}");
    let clock: Value = serde_json::from_slice(&fs::read(directory.join("clock.json")).unwrap()).unwrap();
    assert!(
        clock["assumptions"]["granularity_ns"].as_i64().unwrap() >= plimsoll_agent::GRAIN_NS,
        "{clock}"
    );
    let clock = &clock["agents"]["far"];
    let (offset, bound) = (&clock["pieces"][0]["offset_ns"], &clock["bound_ns"]);
    assert!(
        offset.as_i64().unwrap().abs() <= bound.as_i64().unwrap(),
        "{clock}"
    );
    paths(&directory)
}

/// The paths over which the recorded probes were sent.
fn paths(directory: &Path) -> Vec<String> {
    let file = fs::File::open(directory.join("probes.parquet")).unwrap();
    let batches = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    let mut paths = Vec::new();
    for batch in batches.map(Result::unwrap) {
        let column = batch.column_by_name("via").unwrap().as_dictionary::<UInt16Type>();
        let words = column.downcast_dict::<StringArray>().unwrap();
        paths.extend(words.into_iter().map(|word| word.unwrap().to_owned()));
    }
    paths
}

/// One test, because controller and agent end all descendants of their process.
#[test]
fn probes_use_udp_or_the_link_if_no_port_is_free() {
    let (mut session, time_port) = Session::start("udp", 0);
    assert_ne!(time_port, 0);
    assert!(
        UdpSocket::bind(("::", time_port)).is_err(),
        "the service has the port"
    );
    while session.clock()["udp"] != true {
        // On a busy machine the first answers may all have arrived over the link.
        std::thread::sleep(Duration::from_millis(50));
    }
    let paths = run(&mut session);
    assert!(
        paths.iter().filter(|path| *path == "udp").count() >= 8,
        "{paths:?}"
    );
    session.quit();
    assert!(
        UdpSocket::bind(("::", time_port)).is_ok(),
        "the service has ended with its session"
    );

    // The door uses the only port, TCP for TLS and UDP for QUIC.
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let free =
        |port: &u16| TcpListener::bind(("::", *port)).is_ok() && UdpSocket::bind(("::", *port)).is_ok();
    let port = (first..u16::MAX).find(free).unwrap();
    let (mut session, time_port) = Session::start("link", port);
    assert_eq!(time_port, 0);
    assert_eq!(session.clock()["udp"], false);
    let paths = run(&mut session);
    assert!(
        paths.len() >= 8 && paths.iter().all(|path| path == "link"),
        "{paths:?}"
    );
    session.quit();
}
