//! Agents with their own directories, reached by commands or dialling in: broken links, killed
//! processes, and the transfer of their measurements.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{ENGINE, Lab, TestDirectory, spec, summary};

pub const SECOND: u64 = 1_000_000_000;
const TIMEOUT: Duration = Duration::from_secs(60);

/// An agent that the test has started, so that it is not a descendant of the controller, as on
/// another host.
pub struct Far {
    name: String,
    pub directory: PathBuf,
    process: Child,
}

impl Far {
    pub fn start(temp: &TestDirectory, name: &str, more: &[&str]) -> Self {
        Self::start_in(temp, name, more, &[])
    }

    /// Starts it with these environment variables.
    pub fn start_in(temp: &TestDirectory, name: &str, more: &[&str], environment: &[(&str, &Path)]) -> Self {
        let directory = temp.0.join(name);
        let process = Command::new(ENGINE)
            .args(["agent", "--directory"])
            .arg(&directory)
            .args(more)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let far = Self {
            name: name.into(),
            directory,
            process,
        };
        if more.is_empty() {
            wait_until(|| far.directory.join("agent.sock").exists());
        }
        far
    }

    /// The agent as the lab describes it.
    pub fn spec(&self) -> Value {
        json!({
            "name": self.name, "host": self.name, "site": "far",
            "start": {"kind": "command", "argv": [ENGINE, "attach", "--directory", self.directory]},
        })
    }

    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    pub fn try_wait(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn local(name: &str) -> Value {
    json!({"name": name, "host": "here", "site": "near", "start": {"kind": "local"}})
}

/// Starts an agent that dials in with this token.
pub fn dialling(temp: &TestDirectory, name: &str, token: &Value) -> Far {
    let file = temp.0.join(format!("{name}.token"));
    fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&file)
        .unwrap()
        .write_all(token.to_string().as_bytes())
        .unwrap();
    Far::start(temp, name, &["--name", name, "--join", file.to_str().unwrap()])
}

/// Opens the controller's door. Returns the token and the port.
pub fn listen(lab: &mut Lab) -> (Value, u16) {
    lab.say(
        &json!({"type": "listen", "experiment": "e", "address": "127.0.0.1", "ports": [0, 0], "quic": true}),
    );
    let listening = lab.until("listening").pop().unwrap();
    let port = listening["port"].as_u64().unwrap() as u16;
    (listening["token"].clone(), port)
}

/// An agent that dials in, as the lab describes it.
pub fn joined(name: &str) -> Value {
    json!({"name": name, "host": "j", "site": "far", "start": {"kind": "joined"}})
}

pub fn wait_until(mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < TIMEOUT, "the condition does not become true");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The directory of a run in a results directory. Agents on other hosts need both names.
pub fn run_directory(temp: &TestDirectory) -> PathBuf {
    let path = temp.0.join("results-1/runs/0001");
    fs::create_dir_all(&path).unwrap();
    path
}

pub fn run(lab: &mut Lab, spec: &Value, agents: &[Value], rules: &Value) {
    lab.say(&json!({"type": "run", "spec": spec, "agents": agents, "rules": rules}));
}

fn kinds(events: &[Value]) -> Vec<&str> {
    // A busy machine delays probes, which may be reported as another route.
    let ignored = [json!("damage"), json!("route-change")];
    let is_counted = |event: &Value| event["type"] == "note" && !ignored.contains(&event["kind"]);
    events
        .iter()
        .filter(|event| is_counted(event))
        .map(|event| event["kind"].as_str().unwrap())
        .collect()
}

pub fn started_by(summary: &Value, agent: &str) -> u64 {
    let agents = summary["agents"].as_array().unwrap();
    let summary = agents.iter().find(|summary| summary["name"] == agent).unwrap();
    summary["books"]["counters"]["started"].as_u64().unwrap()
}

/// Children of the controller that are links to agents.
fn link_commands(lab: &Lab) -> Vec<i32> {
    let pid = lab.process.id();
    let mut pids = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_ascii_whitespace() {
            let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if line.contains("attach") {
                pids.push(child.parse().unwrap());
            }
        }
    }
    pids
}

#[test]
fn agents_of_all_kinds_share_a_run_and_leave_no_files() {
    let temp = TestDirectory::new("kinds");
    let directory = run_directory(&temp);
    let mut lab = Lab::start();
    let (token, _) = listen(&mut lab);
    let mut joined = dialling(&temp, "joined", &token);
    assert_eq!(lab.until("joined").pop().unwrap()["name"], "joined");
    let mut far = Far::start(&temp, "far", &[]);
    let mut spec = spec(&directory, SECOND);
    // Each of seven testers runs nine transactions, so the counts of an agent show its testers.
    spec["workloads"][0]["load"]["testers"] = json!(7);
    spec["end"] = json!({"duration_ns": 60 * SECOND, "each_tester": 9, "transactions": null});
    spec["warmup_ns"] = json!(0);
    let agents = [local("one"), far.spec(), self::joined("joined"), local("two")];
    run(&mut lab, &spec, &agents, &json!({}));
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("done"), &json!(true)),
        "{finished}"
    );
    let summary = summary(&directory);
    let shares = ["one", "far", "joined", "two"].map(|name| started_by(&summary, name) / 9);
    assert_eq!(shares, [2, 2, 2, 1]);
    assert_eq!(finished["counters"]["started"], 63);
    let clocks: Value = serde_json::from_slice(&fs::read(directory.join("clock.json")).unwrap()).unwrap();
    for name in ["far", "joined"] {
        let clock = &clocks["agents"][name];
        let bound = clock["bound_ns"].as_i64().unwrap();
        // All processes have the same clock, so the true offset is 0.
        let offset = clock["pieces"][0]["offset_ns"].as_i64().unwrap();
        assert!(offset.abs() <= bound && bound > 0, "{clock}");
        assert!(clock["probes"].as_u64().unwrap() >= 10, "{clock}");
    }
    assert!(directory.join("probes.parquet").exists() && !directory.join("segments").exists());
    lab.say(&json!({"type": "quit"}));
    lab.wait();
    wait_until(|| far.try_wait() && joined.try_wait());
    assert!(
        !far.directory.exists() && !joined.directory.exists(),
        "the agents left their directories"
    );
}

#[test]
fn a_workload_runs_on_the_agents_that_it_names() {
    let temp = TestDirectory::new("bound");
    let directory = run_directory(&temp);
    let mut lab = Lab::start();
    let mut spec = spec(&directory, SECOND);
    spec["workloads"][0]["agents"] = json!(["b"]);
    run(&mut lab, &spec, &[local("a"), local("b")], &json!({}));
    assert_eq!(lab.finished()["balanced"], true);
    let summary = summary(&directory);
    assert!(started_by(&summary, "a") == 0 && started_by(&summary, "b") > 0);
    spec["run"] = json!("0002");
    spec["directory"] = json!(temp.run("results-1/runs/0002"));
    spec["workloads"][0]["agents"] = json!(["c"]);
    run(&mut lab, &spec, &[local("a"), local("b")], &json!({}));
    let refused = lab.until("refused").pop().unwrap();
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("none of its agents is connected"),
        "{refused}"
    );
}

#[test]
fn a_watching_agent_watches_to_the_end_of_the_run() {
    let temp = TestDirectory::new("watch");
    let directory = run_directory(&temp);
    let far = Far::start(&temp, "far", &[]);
    let mut lab = Lab::start();
    let mut watcher = local("watcher");
    watcher["role"] = json!("watch");
    watcher["watch"] =
        json!([{"name": "engine", "pid": lab.process.id()}, {"name": "none", "process": "no-such-name"}]);
    run(
        &mut lab,
        &spec(&directory, 3 * SECOND),
        &[watcher, far.spec()],
        &json!({}),
    );
    let events = lab.until("finished");
    assert_eq!(kinds(&events), ["watch-lost"], "{events:?}");
    assert_eq!(events[events.len() - 1]["balanced"], true);
    let summary = summary(&directory);
    assert!(started_by(&summary, "watcher") == 0 && started_by(&summary, "far") > 100);
    let agents = summary["agents"].as_array().unwrap();
    let watcher = agents.iter().find(|agent| agent["name"] == "watcher").unwrap();
    let segments = watcher["books"]["segments"].as_array().unwrap();
    let samples = segments
        .iter()
        .find(|name| name.as_str().unwrap().contains("samples"))
        .unwrap();
    let segment = summary["segments"]
        .as_array()
        .unwrap()
        .iter()
        .find(|segment| segment["name"] == *samples)
        .unwrap();
    // About 40 values per second, for three seconds.
    assert!(segment["rows"].as_u64().unwrap() > 100, "{segment}");
}

#[test]
fn a_broken_link_is_made_again_and_no_measurement_is_lost() {
    let temp = TestDirectory::new("cut");
    let directory = run_directory(&temp);
    let far = Far::start(&temp, "far", &[]);
    let mut lab = Lab::start();
    run(
        &mut lab,
        &spec(&directory, 4 * SECOND),
        &[local("near"), far.spec()],
        &json!({}),
    );
    lab.until("second");
    for command in link_commands(&lab) {
        Lab::kill(command, libc::SIGKILL);
    }
    let events = lab.until("finished");
    assert_eq!(kinds(&events), ["link-cut", "link-made"], "{events:?}");
    let finished = &events[events.len() - 1];
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("done"), &json!(true)),
        "{finished}"
    );
    assert!(started_by(&summary(&directory), "far") > 100);
    let seconds = events.iter().filter(|event| event["type"] == "second").count();
    assert!(seconds >= 3, "seconds of the live view are missing: {seconds}");
}

#[test]
fn a_killed_agent_is_lost_and_its_segments_are_collected() {
    let temp = TestDirectory::new("killed");
    let directory = run_directory(&temp);
    let mut far = Far::start(&temp, "far", &[]);
    let mut lab = Lab::start();
    run(
        &mut lab,
        &spec(&directory, 4 * SECOND),
        &[local("near"), far.spec()],
        &json!({}),
    );
    lab.until("second");
    lab.until("second");
    far.process.kill().unwrap();
    far.process.wait().unwrap();
    let events = lab.until("finished");
    let kinds = kinds(&events);
    assert_eq!(kinds.last(), Some(&"agent-lost"), "{kinds:?}");
    let finished = &events[events.len() - 1];
    assert_eq!(
        (&finished["status"], &finished["balanced"], &finished["lost"]),
        (&json!("done"), &json!(false), &json!(["far"]))
    );
    let before = summary(&directory);
    let lost = before["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "far")
        .unwrap();
    assert!(lost["lost_ns"].as_i64().unwrap() > 0, "{lost}");
    assert_eq!(started_by(&before, "far"), 0, "its segments are already on disk");
    lab.say(&json!({"type": "collect", "directory": directory, "agents": [far.spec()]}));
    let collected = lab.until("collected").pop().unwrap();
    assert_eq!(collected["missing"], json!([]), "{collected}");
    let after = summary(&directory);
    assert!(started_by(&after, "far") > 100 && started_by(&after, "near") == started_by(&before, "near"));
    assert_eq!(after["rows"]["counters"]["started"], after["counters"]["started"]);
}

#[test]
fn the_loss_of_an_agent_ends_the_run_with_abort_on_loss() {
    let temp = TestDirectory::new("abort");
    let directory = run_directory(&temp);
    let mut far = Far::start(&temp, "far", &[]);
    let mut lab = Lab::start();
    let rules = json!({"abort_on_loss": true});
    run(
        &mut lab,
        &spec(&directory, 60 * SECOND),
        &[local("near"), far.spec()],
        &rules,
    );
    lab.until("second");
    far.process.kill().unwrap();
    far.process.wait().unwrap();
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["lost"]),
        (&json!("agent-lost"), &json!(["far"]))
    );
}

#[test]
fn an_agent_without_a_controller_ends_after_the_grace_and_keeps_its_segments() {
    let temp = TestDirectory::new("grace");
    let directory = run_directory(&temp);
    let mut far = Far::start(&temp, "far", &[]);
    let mut lab = Lab::start();
    let rules = json!({"grace_ns": SECOND});
    run(&mut lab, &spec(&directory, 60 * SECOND), &[far.spec()], &rules);
    lab.until("second");
    lab.process.kill().unwrap();
    lab.process.wait().unwrap();
    wait_until(|| far.try_wait());
    let kept = far.directory.join("runs/results-1/0001");
    assert!(kept.join("far-000.json").exists(), "its segment is not complete");
    // The killed controller has written the start of the run; another one collects the segments.
    let mut lab = Lab::start();
    lab.say(&json!({"type": "collect", "directory": directory, "agents": [far.spec()]}));
    let collected = lab.until("collected").pop().unwrap();
    assert_eq!(collected["missing"], json!([]), "{collected}");
    let summary = summary(&directory);
    assert_eq!(summary["status"], "interrupted");
    assert!(started_by(&summary, "far") > 100, "{summary}");
    // The agent was asked to remove its files.
    wait_until(|| !kept.exists());
    assert!(directory.join("transactions.parquet").exists());
}

#[test]
fn a_stopped_agent_is_lost_after_the_grace_and_one_that_continues_in_time_is_not() {
    let temp = TestDirectory::new("stopped");
    let directory = run_directory(&temp);
    let (one, two) = (Far::start(&temp, "one", &[]), Far::start(&temp, "two", &[]));
    let mut lab = Lab::start();
    let rules = json!({"grace_ns": 8 * SECOND});
    run(
        &mut lab,
        &spec(&directory, 25 * SECOND),
        &[one.spec(), two.spec()],
        &rules,
    );
    lab.until("second");
    Lab::kill(one.pid(), libc::SIGSTOP);
    Lab::kill(two.pid(), libc::SIGSTOP);
    let mut cut = 0;
    while cut < 2 {
        cut += usize::from(lab.until("note").pop().unwrap()["kind"] == "link-cut");
    }
    Lab::kill(one.pid(), libc::SIGCONT);
    let events = lab.until("finished");
    let kinds = kinds(&events);
    assert!(
        kinds.contains(&"link-made") && kinds.contains(&"agent-lost"),
        "{kinds:?}"
    );
    let finished = &events[events.len() - 1];
    assert_eq!(finished["lost"], json!(["two"]), "{finished}");
    let summary = summary(&directory);
    let damage = summary["damage"].as_array().unwrap();
    assert!(
        damage.iter().all(|text| text.as_str().unwrap().contains("two")),
        "{damage:?}"
    );
    assert!(started_by(&summary, "one") > 1000);
    Lab::kill(two.pid(), libc::SIGCONT);
}

#[test]
fn an_unreachable_host_is_reported_and_the_run_starts_if_enough_agents_remain() {
    let temp = TestDirectory::new("dead");
    let directory = run_directory(&temp);
    let dead = json!({
        "name": "dead", "host": "dead", "site": "far",
        "start": {"kind": "command", "argv": ["sh", "-c", "echo no route to this host >&2; exit 255"]},
    });
    let mut lab = Lab::start();
    run(
        &mut lab,
        &spec(&directory, SECOND),
        &[local("near"), dead.clone()],
        &json!({}),
    );
    let refused = lab.until("refused").pop().unwrap();
    let error = refused["error"].as_str().unwrap();
    assert!(
        error.contains("1 of 2 agents") && error.contains("no route to this host"),
        "{error}"
    );
    assert!(!Path::new(&directory).join("segments").exists());
    run(
        &mut lab,
        &spec(&directory, SECOND),
        &[local("near"), dead.clone()],
        &json!({"at_least": 1}),
    );
    let events = lab.until("finished");
    assert_eq!(kinds(&events), ["agent-missing"]);
    assert_eq!(events[events.len() - 1]["balanced"], true);
    lab.say(&json!({"type": "check", "agents": [local("near"), dead]}));
    let events = lab.until("checked");
    let hosts: Vec<&Value> = events.iter().filter(|event| event["type"] == "host").collect();
    assert!(hosts[0]["facts"]["cores"].as_u64().unwrap() >= 1 && hosts[0]["error"].is_null());
    assert!(hosts[1]["facts"].is_null() && hosts[1]["error"].as_str().unwrap().contains("no route"));
}

#[test]
fn a_list_with_the_same_name_twice_is_refused() {
    let temp = TestDirectory::new("twice");
    let directory = run_directory(&temp);
    let mut lab = Lab::start();
    let twice = json!([local("one"), local("two"), local("one")]);
    for command in [
        json!({"type": "run", "spec": spec(&directory, SECOND), "agents": twice}),
        json!({"type": "check", "agents": twice}),
        json!({"type": "collect", "directory": directory, "agents": twice}),
    ] {
        lab.say(&command);
        let refused = lab.until("refused").pop().unwrap();
        assert!(
            refused["error"]
                .as_str()
                .unwrap()
                .contains("agent one is listed twice"),
            "{refused}"
        );
    }
    lab.say(&json!({"type": "check", "agents": [local("../one")]}));
    let refused = lab.until("refused").pop().unwrap();
    assert!(refused["error"].as_str().unwrap().contains("../one"), "{refused}");
    assert!(!directory.join("segments").exists());
    run(
        &mut lab,
        &spec(&directory, SECOND),
        &[local("one"), local("two")],
        &json!({}),
    );
    assert_eq!(lab.finished()["balanced"], true);
}

#[test]
fn watching_agents_do_not_count_for_the_minimum_of_agents() {
    let temp = TestDirectory::new("watchers");
    let directory = run_directory(&temp);
    let mut dead = json!({
        "name": "dead", "host": "dead", "site": "far",
        "start": {"kind": "command", "argv": ["sh", "-c", "exit 255"]},
    });
    let mut watcher = local("watcher");
    watcher["role"] = json!("watch");
    let mut lab = Lab::start();
    let rules = json!({"at_least": 2});
    run(
        &mut lab,
        &spec(&directory, SECOND),
        &[local("near"), watcher.clone(), dead.clone()],
        &rules,
    );
    let refused = lab.until("refused").pop().unwrap();
    let error = refused["error"].as_str().unwrap();
    assert!(
        error.contains("1 of 2 agents are connected, 2 are needed"),
        "{error}"
    );
    // A run with enough testers also starts without a watching agent.
    dead["role"] = json!("watch");
    run(
        &mut lab,
        &spec(&directory, SECOND),
        &[local("near"), local("too"), dead],
        &rules,
    );
    let events = lab.until("finished");
    assert_eq!(kinds(&events), ["watch-lost"]);
    assert_eq!(events[events.len() - 1]["balanced"], true);
}

#[test]
fn files_of_a_workload_have_the_paths_of_the_agents_host() {
    let temp = TestDirectory::new("files");
    let directory = run_directory(&temp);
    let far = Far::start(&temp, "far", &[]);
    let script = |name: &str, text: &str| {
        let path = temp.0.join(name);
        fs::write(&path, format!("echo '{{\"items\": {text}}}'\n")).unwrap();
        path
    };
    let (here, there) = (script("here.sh", "1"), script("there.sh", "2"));
    let mut spec = spec(&directory, 60 * SECOND);
    spec["warmup_ns"] = json!(0);
    spec["end"] = json!({"duration_ns": null, "each_tester": 3, "transactions": null});
    spec["workloads"][0]["driver"] = json!("exec");
    spec["workloads"][0]["settings"] =
        json!({"mode": "per-transaction", "env": {}, "cwd": null, "files": [here]});
    spec["workloads"][0]["timeout_ns"] = json!(60 * SECOND);
    spec["workloads"][0]["endpoints"] = json!([{"name": "here", "url": "exec:"}]);
    spec["workloads"][0]["operations"][0]["request"] =
        json!({"command": ["sh", here], "stdin": null, "bytes": {"kind": "json"}});
    let mut described = far.spec();
    described["files"] = json!({here.to_str().unwrap(): there});
    let mut lab = Lab::start();
    run(&mut lab, &spec, &[local("near"), described.clone()], &json!({}));
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("done"), &json!(true)),
        "{finished}"
    );
    // One tester per agent with three transactions each: 1 item here, 2 items on the other host.
    assert_eq!(finished["counters"]["items"], 3 * (1 + 2), "{finished}");
    // If the file is missing on a host, the run is refused before it starts.
    described["files"] = json!({here.to_str().unwrap(): temp.0.join("nowhere.sh")});
    spec["run"] = json!("0002");
    spec["directory"] = json!(temp.run("results-1/runs/0002"));
    run(&mut lab, &spec, &[local("near"), described], &json!({}));
    let refused = lab.until("refused").pop().unwrap();
    let error = refused["error"].as_str().unwrap();
    assert!(
        error.contains("agent far") && error.contains("nowhere.sh is not on this host"),
        "{error}"
    );
}
