//! Agents that are asked to end during a run: their measurements are transferred, or kept.

use serde_json::{Value, json};

use crate::harness::{Lab, TestDirectory, spec, summary};
use crate::hosts::{Far, SECOND, local, run, run_directory, started_by, wait_until};

/// Time (s) and text of the events of this kind.
fn notes(events: &[Value], kind: &str) -> Vec<(f64, String)> {
    let events = events.iter().filter(|event| event["kind"] == kind);
    events
        .map(|event| {
            (
                event["t_s"].as_f64().unwrap(),
                event["text"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

#[test]
fn an_agent_that_is_asked_to_end_transfers_its_measurements_and_ends() {
    let temp = TestDirectory::new("asked");
    let directory = run_directory(&temp);
    let mut far = Far::start(&temp, "far", &[]);
    let mut lab = Lab::start();
    run(
        &mut lab,
        &spec(&directory, 8 * SECOND),
        &[local("near"), far.spec()],
        &json!({}),
    );
    lab.until("second");
    lab.until("second");
    Lab::kill(far.pid(), libc::SIGTERM);
    wait_until(|| far.try_wait());
    assert!(!far.directory.exists(), "the agent left its directory");
    let events = lab.until("finished");
    let lost = notes(&events, "agent-lost");
    assert_eq!(lost.len(), 1, "{events:?}");
    assert!(
        lost[0].1.contains("far") && lost[0].1.contains("was asked to end (SIGTERM)"),
        "{lost:?}"
    );
    let finished = &events[events.len() - 1];
    assert_eq!(
        (&finished["status"], &finished["lost"]),
        (&json!("done"), &json!(["far"])),
        "{finished}"
    );
    let summary = summary(&directory);
    // All measurements were transferred, and the agent has none after the signal.
    assert!(started_by(&summary, "far") > 100 && started_by(&summary, "near") > started_by(&summary, "far"));
    assert_eq!(
        summary["rows"]["counters"]["started"],
        summary["counters"]["started"]
    );
    let agents = summary["agents"].as_array().unwrap();
    let far = agents.iter().find(|agent| agent["name"] == "far").unwrap();
    let lost_s = far["lost_ns"].as_f64().unwrap() / 1e9;
    assert!((lost_s - lost[0].0).abs() < 0.001 && lost_s < 8.0, "{far}");
    assert!(far["window_ns"].as_f64().unwrap() / 1e9 < 8.0, "{far}");
    let damage = summary["damage"].as_array().unwrap();
    assert!(
        damage.len() == 1 && damage[0].as_str().unwrap().contains("were transferred"),
        "{damage:?}"
    );
    assert!(
        !directory.join("segments").exists(),
        "segments are to be collected"
    );
}

#[test]
fn a_local_agent_that_is_asked_to_end_leaves_complete_segments() {
    let temp = TestDirectory::new("asked-here");
    let directory = temp.run("0001");
    let mut lab = Lab::start();
    lab.run(&spec(&directory, 60 * SECOND));
    lab.until("second");
    Lab::kill(lab.agent(), libc::SIGTERM);
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["lost"]),
        (&json!("agent-lost"), &json!(["local"]))
    );
    let summary = summary(&directory);
    assert!(started_by(&summary, "local") > 100);
    assert_eq!(
        summary["rows"]["counters"]["started"],
        summary["counters"]["started"]
    );
    assert_eq!(summary["damage"].as_array().unwrap().len(), 1, "{summary}");
    lab.run(&spec(&temp.run("0002"), SECOND));
    assert_eq!(lab.finished()["status"], "done", "the next run has no agent");
}

#[test]
fn an_agent_that_is_asked_to_end_without_a_controller_keeps_its_measurements() {
    let temp = TestDirectory::new("unheard");
    let directory = run_directory(&temp);
    let (mut far, other) = (Far::start(&temp, "far", &[]), Far::start(&temp, "other", &[]));
    let mut lab = Lab::start();
    run(
        &mut lab,
        &spec(&directory, 600 * SECOND),
        &[other.spec(), far.spec()],
        &json!({}),
    );
    lab.until("second");
    lab.until("second");
    // The controller cannot fetch segments while it is stopped.
    Lab::kill(lab.process.id().cast_signed(), libc::SIGSTOP);
    Lab::kill(far.pid(), libc::SIGTERM);
    wait_until(|| far.try_wait());
    let kept = far.directory.join("runs/results-1/0001");
    assert!(kept.join("far-000.json").exists(), "its segment is not complete");
    Lab::kill(lab.process.id().cast_signed(), libc::SIGCONT);
    // The controller must have detected the loss before the run is stopped.
    while lab.until("note").pop().unwrap()["kind"] != "agent-lost" {}
    lab.say(&json!({"type": "stop", "reason": "enough"}));
    let finished = lab.finished();
    assert_eq!(finished["lost"], json!(["far"]), "{finished}");
    lab.say(&json!({"type": "collect", "directory": directory, "agents": [far.spec()]}));
    let collected = lab.until("collected").pop().unwrap();
    assert_eq!(collected["missing"], json!([]), "{collected}");
    let after = summary(&directory);
    assert!(started_by(&after, "far") > 100, "{after}");
    assert_eq!(after["rows"]["counters"]["started"], after["counters"]["started"]);
}
