//! The path of the probes of an agent behind ssh.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{ENGINE, Lab, TestDirectory};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The report on the clock of the agent.
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
fn probes_are_sent_to_the_source_address_of_the_present_ssh_connection() {
    let temp = TestDirectory::new("time");
    let (from, carrier) = (temp.0.join("comes-from"), temp.0.join("carrier"));
    let directory = temp.0.join("far");
    // The script acts as sshd. It reads the source address of its connection from a file; for a
    // jump through a pipe it is unknown.
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

    // The next connection to the same agent has another source address.
    fs::write(&from, "127.0.0.1").unwrap();
    let pid = fs::read_to_string(&carrier).unwrap().trim().parse().unwrap();
    Lab::kill(pid, libc::SIGKILL);
    let since = Instant::now();
    while clock(&mut lab, &agent)["udp"] != true {
        assert!(since.elapsed() < TIMEOUT, "no probe is sent over UDP");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_ne!(fs::read_to_string(&carrier).unwrap().trim(), pid.to_string());
    lab.say(&json!({"type": "quit"}));
    lab.wait();
    let since = Instant::now();
    while directory.exists() {
        assert!(since.elapsed() < TIMEOUT, "the agent left its directory");
        std::thread::sleep(Duration::from_millis(10));
    }
}
