//! By which way an agent behind ssh asks for the time.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{ENGINE, Lab, TestDirectory};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The clock of the only agent.
fn clock(lab: &mut Lab, agent: &Value) -> Value {
    lab.say(&json!({"type": "check", "agents": [agent]}));
    let host = lab
        .until("checked")
        .into_iter()
        .find(|event| event["type"] == "host");
    let host = host.unwrap();
    assert!(host["error"].is_null(), "{host}");
    host["facts"]["clock"].clone()
}

#[test]
fn probes_go_where_the_ssh_connection_comes_from_and_follow_it() {
    let temp = TestDirectory::new("time");
    let (from, carrier) = (temp.0.join("comes-from"), temp.0.join("carrier"));
    let directory = temp.0.join("far");
    // What sshd does, and where its connection came from; a jump through a pipe is of unknown
    // origin.
    fs::write(&from, "UNKNOWN").unwrap();
    let script = format!(
        "echo $$ >'{}'; SSH_CONNECTION=\"$(cat '{}') 65535 127.0.0.1 22\" exec '{ENGINE}' attach --directory '{}'",
        carrier.display(),
        from.display(),
        directory.display()
    );
    let agent = json!({
        "name": "far", "host": "h", "site": "s", "start": {"kind": "command", "argv": ["sh", "-c", script]},
    });
    let mut lab = Lab::start();
    assert_eq!(clock(&mut lab, &agent)["udp"], false);

    // The next connection comes another way, to the same agent.
    fs::write(&from, "127.0.0.1").unwrap();
    let pid = fs::read_to_string(&carrier).unwrap().trim().parse().unwrap();
    Lab::kill(pid, libc::SIGKILL);
    let since = Instant::now();
    while clock(&mut lab, &agent)["udp"] != true {
        assert!(since.elapsed() < TIMEOUT, "no probe goes by UDP");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_ne!(fs::read_to_string(&carrier).unwrap().trim(), pid.to_string());
    lab.say(&json!({"type": "quit"}));
    lab.wait();
    let since = Instant::now();
    while directory.exists() {
        assert!(since.elapsed() < TIMEOUT, "something of the agent is left");
        std::thread::sleep(Duration::from_millis(10));
    }
}
