//! Runs of one agent on this host with the null driver: their normal course, and failures of lab,
//! controller and agent.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{ENGINE, Lab, TestDirectory, spec, summary};

const LONG: u64 = 60_000_000_000;

#[test]
fn a_run_reports_seconds_and_writes_its_files() {
    let temp = TestDirectory::new("whole");
    let mut lab = Lab::start();
    for name in ["0001", "0002"] {
        let run = temp.run(name);
        lab.run(&spec(&run, 1_500_000_000));
        let events = lab.until("finished");
        assert_eq!(events[0]["type"], "started");
        assert_eq!(events[0]["agents"], json!(["local"]));
        let finished = &events[events.len() - 1];
        assert_eq!(
            (&finished["status"], &finished["balanced"], &finished["damage"]),
            (&json!("done"), &json!(true), &json!([]))
        );
        let started = finished["counters"]["started"].as_u64().unwrap();
        assert!(started > 100, "{started}");
        let seconds: Vec<&Value> = events.iter().filter(|event| event["type"] == "second").collect();
        assert!(seconds.len() >= 2);
        let live: u64 = seconds
            .iter()
            .map(|event| event["counters"]["started"].as_u64().unwrap())
            .sum();
        assert_eq!(live, started, "the live view differs from the final counts");
        let summary = summary(&run);
        assert_eq!(summary["format"], "plimsoll.summary/1");
        assert_eq!(summary["rows"]["counters"]["started"], started);
        assert_eq!(summary["measured_end_ns"], 1_500_000_000);
        for file in [
            "transactions.parquet",
            "samples.parquet",
            "clock.parquet",
            "live.jsonl",
        ] {
            assert!(run.join(file).exists(), "{file}");
        }
        assert!(!run.join("segments").exists());
        let live = fs::read_to_string(run.join("live.jsonl")).unwrap();
        assert_eq!(live.lines().count(), seconds.len() + 1);
        assert!(live.lines().next().unwrap().contains("plimsoll.live/1"));
    }
    lab.say(&json!({"type": "quit"}));
    lab.wait();
}

#[test]
fn a_stopped_run_keeps_its_measurements() {
    let temp = TestDirectory::new("stop");
    let run = temp.run("0001");
    let mut lab = Lab::start();
    lab.run(&spec(&run, LONG));
    lab.until("second");
    lab.say(&json!({"type": "stop", "reason": "enough"}));
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["reason"], &finished["balanced"]),
        (&json!("stopped"), &json!("enough"), &json!(true))
    );
    assert!(summary(&run)["measured_end_ns"].as_i64().unwrap() < 60_000_000_000);
}

#[test]
fn a_killed_agent_ends_the_run_and_its_segments_are_kept() {
    let temp = TestDirectory::new("kill");
    let (first, second) = (temp.run("0001"), temp.run("0002"));
    let mut lab = Lab::start();
    lab.run(&spec(&first, LONG));
    lab.until("second");
    lab.until("second");
    Lab::kill(lab.agent(), libc::SIGKILL);
    let events = lab.until("finished");
    assert!(
        events.iter().any(|event| event["kind"] == "agent-lost"),
        "{events:?}"
    );
    let finished = &events[events.len() - 1];
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("agent-lost"), &json!(false))
    );
    let kept = summary(&first)["rows"]["counters"]["started"].as_u64().unwrap();
    assert!(kept > 100, "{kept}");
    assert_eq!(finished["counters"]["started"], kept);
    lab.run(&spec(&second, 300_000_000));
    assert_eq!(
        lab.finished()["status"],
        "done",
        "the next run starts a new agent"
    );
}

#[test]
fn a_controller_that_was_suspended_receives_the_messages_of_its_agents() {
    let temp = TestDirectory::new("stopped-controller");
    let directory = temp.run("0001");
    let mut lab = Lab::start();
    lab.run(&spec(&directory, 9_000_000_000));
    lab.until("second");
    let controller = i32::try_from(lab.process.id()).unwrap();
    Lab::kill(controller, libc::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_secs(7));
    Lab::kill(controller, libc::SIGCONT);
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("done"), &json!(true)),
        "{finished}"
    );
}

#[test]
fn a_silent_agent_is_lost_and_the_run_ends() {
    let temp = TestDirectory::new("silent");
    let (first, second) = (temp.run("0001"), temp.run("0002"));
    let mut lab = Lab::start();
    lab.run(&spec(&first, LONG));
    lab.until("second");
    lab.until("second");
    let agent = lab.agent();
    // Its link stays open: only the silence shows that it does not run.
    Lab::kill(agent, libc::SIGSTOP);
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("agent-lost"), &json!(false))
    );
    let reason = finished["reason"].as_str().unwrap();
    assert!(reason.contains("no data was received for 5 s"), "{reason}");
    assert!(!finished["damage"].as_array().unwrap().is_empty());
    let summary = summary(&first);
    assert_eq!(summary["agents"][0]["lost"], true);
    assert!(summary["rows"]["counters"]["started"].as_u64().unwrap() > 0);
    assert!(
        !Path::new(&format!("/proc/{agent}")).exists(),
        "the stopped agent was not ended"
    );
    lab.run(&spec(&second, 300_000_000));
    assert_eq!(lab.finished()["status"], "done", "the next run has a new agent");
}

#[test]
fn a_run_is_stopped_by_the_end_of_the_lab_and_by_a_signal() {
    let temp = TestDirectory::new("ends");
    for how in ["eof", "signal"] {
        let run = temp.run(how);
        let mut lab = Lab::start();
        lab.run(&spec(&run, LONG));
        lab.until("second");
        let agent = lab.agent();
        match how {
            "eof" => lab.commands = None,
            _ => Lab::kill(lab.process.id().cast_signed(), libc::SIGTERM),
        }
        lab.wait();
        assert_eq!(summary(&run)["status"], "stopped", "{how}");
        assert_eq!(summary(&run)["balanced"], true, "{how}");
        assert!(run.join("transactions.parquet").exists());
        assert!(
            !Path::new(&format!("/proc/{agent}")).exists(),
            "the agent outlives its controller"
        );
    }
}

#[test]
fn the_segments_of_a_killed_controller_can_be_converted() {
    let temp = TestDirectory::new("crash");
    let run = temp.run("0001");
    let mut lab = Lab::start();
    lab.run(&spec(&run, LONG));
    lab.until("second");
    lab.until("second");
    let agent = lab.agent();
    Lab::kill(lab.process.id().cast_signed(), libc::SIGKILL);
    lab.process.wait().unwrap();
    let since = Instant::now();
    while fs::read_to_string(format!("/proc/{agent}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(
            since.elapsed() < Duration::from_secs(15),
            "the agent outlives its controller"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!run.join("transactions.parquet").exists());
    let convert = || {
        let output = Command::new(ENGINE).arg("convert").arg(&run).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let conversion = convert();
    assert_eq!(
        (&conversion["converted"], &conversion["status"]),
        (&json!(true), &json!("interrupted"))
    );
    let kept = summary(&run)["counters"]["started"].as_u64().unwrap();
    assert!(kept > 100, "{kept}");
    assert_eq!(
        convert()["converted"],
        false,
        "a second conversion changes something"
    );
}

#[test]
fn an_invalid_run_is_refused_and_leaves_no_files() {
    let temp = TestDirectory::new("refused");
    let run = temp.run("0001");
    let mut lab = Lab::start();
    let mut wrong = spec(&run, LONG);
    wrong["workloads"][0]["driver"] = json!("telepathy");
    let mut empty = spec(&run, LONG);
    empty["end"] = json!({"duration_ns": null, "each_tester": null, "transactions": null});
    let mut core = spec(&run, LONG);
    core["tester_cpus"] = json!([1000]);
    for (spec, expected) in [
        (wrong, "telepathy"),
        (empty, "at least one of duration_ns"),
        (core, "1000"),
    ] {
        lab.run(&spec);
        let refused = lab.until("refused").pop().unwrap();
        let error = refused["error"].as_str().unwrap();
        assert!(error.contains(expected), "{error}");
        assert!(!run.join("segments").exists(), "{expected}");
    }
    lab.say(&json!({"type": "run", "spec": {"secret": "hunter2"}}));
    let error = lab.until("refused").pop().unwrap().to_string();
    assert!(!error.contains("hunter2"), "{error}");
    writeln!(lab.commands.as_mut().unwrap(), "rubbish").unwrap();
    lab.until("refused");
    // A valid run works afterwards; a second one in the same directory is refused.
    lab.run(&spec(&run, 300_000_000));
    assert_eq!(lab.finished()["status"], "done");
    lab.run(&spec(&run, 300_000_000));
    let error = lab.until("refused").pop().unwrap()["error"].to_string();
    assert!(error.contains("already contains a measurement"), "{error}");
}

#[test]
fn a_ceiling_stops_the_run() {
    let temp = TestDirectory::new("ceiling");
    let run = temp.run("0001");
    let mut lab = Lab::start();
    let mut spec = spec(&run, LONG);
    spec["ceiling"] =
        json!([{"reading": "throughput", "above": 10.0, "for_seconds": 2, "text": "throughput: rate>10/s"}]);
    lab.run(&spec);
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("ceiling"), &json!(true))
    );
    assert!(finished["reason"].as_str().unwrap().contains("rate>10/s"));
}

#[test]
fn a_ceiling_on_the_memory_of_a_service_states_the_number_of_testers() {
    let temp = TestDirectory::new("memory");
    let run = temp.run("0001");
    let mut service = Command::new("sleep").arg("600").spawn().unwrap();
    let mut lab = Lab::start();
    let mut spec = spec(&run, LONG);
    spec["watch"] = json!([{"name": "db", "pid": service.id(), "cpus": []}]);
    let ceiling = |component: &str, above: f64| {
        json!({"reading": "memory", "component": component, "above": above, "for_seconds": 2,
            "text": format!("memory.{component}: avg>10kB")})
    };
    // Neither a limit that is not exceeded nor another service stops it.
    spec["ceiling"] = json!([ceiling("db", 1e12), ceiling("web", 1e4), ceiling("db", 1e4)]);
    lab.run(&spec);
    let finished = lab.finished();
    service.kill().unwrap();
    service.wait().unwrap();
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("ceiling"), &json!(true))
    );
    let reason = finished["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("memory.db: avg>10kB held for 2 seconds: "),
        "{reason}"
    );
    assert!(
        reason.ends_with("is above 10.0 kB, with 2 active testers"),
        "{reason}"
    );
    assert!(run.join("transactions.parquet").exists());
    let nobody = json!({"reading": "memory", "above": 1.0, "for_seconds": 1, "text": "memory"});
    spec["directory"] = json!(temp.run("0002"));
    spec["ceiling"] = json!([nobody]);
    lab.run(&spec);
    let error = lab.until("refused").pop().unwrap()["error"].to_string();
    assert!(error.contains("ceiling.0.component"), "{error}");
}

#[test]
fn the_end_of_a_service_ends_the_run() {
    let temp = TestDirectory::new("service");
    let run = temp.run("0001");
    let mut service = Command::new("sleep").arg("600").spawn().unwrap();
    let mut lab = Lab::start();
    let mut spec = spec(&run, LONG);
    spec["watch"] = json!([{"name": "db", "pid": service.id(), "cpus": []}]);
    lab.run(&spec);
    lab.until("second");
    service.kill().unwrap();
    let finished = lab.finished();
    service.wait().unwrap();
    assert_eq!(finished["status"], "service-gone");
    assert!(finished["reason"].as_str().unwrap().contains("\"db\""));
}

#[test]
fn with_keep_summaries_only_the_counts_are_written() {
    let temp = TestDirectory::new("summaries");
    let run = temp.run("0001");
    let mut lab = Lab::start();
    let mut spec = spec(&run, 1_000_000_000);
    spec["keep"] = json!("summaries");
    lab.run(&spec);
    assert_eq!(lab.finished()["balanced"], true);
    assert!(!run.join("transactions.parquet").exists());
    assert!(run.join("live.jsonl").exists());
}

#[test]
fn a_full_disk_is_damage_and_does_not_end_the_run() {
    let temp = TestDirectory::new("full");
    let disk = temp.run("disk");
    let mount = |arguments: &[&str]| {
        Command::new("mount")
            .args(arguments)
            .arg(&disk)
            .stderr(Stdio::null())
            .status()
    };
    if !mount(&["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).is_ok_and(|status| status.success()) {
        println!("SKIPPED: mounting a small tmpfs needs root");
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "this test must not be skipped under CI"
        );
        return;
    }
    let run = disk.join("0001");
    fs::create_dir_all(&run).unwrap();
    let mut lab = Lab::start();
    let mut spec = spec(&run, 2_000_000_000);
    // Without think time: hundreds of thousands of transactions per second, 100 bytes each.
    spec["workloads"][0]["load"]["think"]["ns"] = json!(0);
    lab.run(&spec);
    let finished = lab.finished();
    lab.say(&json!({"type": "quit"}));
    lab.wait();
    drop(lab);
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(
        unmounted.is_ok_and(|status| status.success()),
        "the file system was not unmounted"
    );
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("done"), &json!(false))
    );
    let damage = finished["damage"].to_string();
    assert!(
        damage.contains("No space left") && damage.contains("could not be written"),
        "{damage}"
    );
}

#[test]
fn a_run_whose_conversion_failed_is_converted_later() {
    let temp = TestDirectory::new("later");
    let run = temp.run("0001");
    // The file is written to a device without space.
    std::os::unix::fs::symlink("/dev/full", run.join("transactions.parquet.part")).unwrap();
    let mut lab = Lab::start();
    lab.run(&spec(&run, 500_000_000));
    let finished = lab.finished();
    assert_eq!(
        (&finished["status"], &finished["balanced"]),
        (&json!("done"), &json!(false))
    );
    let damage = finished["damage"].to_string();
    assert!(
        damage.contains("No space left") && damage.contains("plimsoll-engine convert"),
        "{damage}"
    );
    assert!(run.join("segments").exists() && !run.join("transactions.parquet").exists());
    let output = Command::new(ENGINE).arg("convert").arg(&run).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let conversion: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            &conversion["converted"],
            &conversion["balanced"],
            &conversion["damage"]
        ),
        (&json!(true), &json!(true), &json!([]))
    );
    let summary = summary(&run);
    assert_eq!(
        summary["rows"]["counters"]["started"],
        finished["counters"]["started"]
    );
    assert_eq!(summary["status"], "done");
    assert!(run.join("transactions.parquet").exists() && !run.join("segments").exists());
}

/// Number of processes with the argument `mark`.
fn count_processes(mark: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).split('\0').any(|word| word == mark))
        .count()
}

#[test]
fn client_programs_outlive_neither_agent_nor_controller() {
    let temp = TestDirectory::new("orphans");
    // A duration that no other process sleeps for.
    let mark = format!("7{}.5", std::process::id());
    for (name, victim_is_agent) in [("agent", true), ("controller", false)] {
        let run = temp.run(name);
        let mut lab = Lab::start();
        let mut spec = spec(&run, LONG);
        spec["workloads"][0]["driver"] = json!("exec");
        spec["workloads"][0]["settings"] = json!({"mode": "per-transaction", "env": {}, "cwd": null});
        spec["workloads"][0]["timeout_ns"] = json!(LONG);
        spec["workloads"][0]["endpoints"] = json!([{"name": "here", "url": "exec:"}]);
        spec["workloads"][0]["operations"][0]["request"] = json!({"command": ["sh", "-c", format!("sleep {mark}; true")], "stdin": null, "bytes": {"kind": "none"}});
        lab.run(&spec);
        lab.until("second");
        assert_eq!(count_processes(&mark), 2, "{name}");
        if victim_is_agent {
            Lab::kill(lab.agent(), libc::SIGKILL);
            assert_eq!(lab.finished()["status"], "agent-lost");
        } else {
            Lab::kill(lab.process.id().cast_signed(), libc::SIGKILL);
        }
        let since = Instant::now();
        while count_processes(&mark) > 0 {
            assert!(
                since.elapsed() < Duration::from_secs(20),
                "{name}: programs outlive it"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
