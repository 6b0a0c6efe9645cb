//! Kept data connections, pipelined commands, restarts and stripes.

use super::*;

#[test]
fn kept_data_connections_are_used_for_the_next_file() {
    let mut wanted = kept(request(4));
    wanted["verify"] = json!("adler32");
    let (ran, commands) = run_recorded(wanted, 3, 10_000);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 3], "{:?}", ran.notes);
    assert_eq!(
        commands,
        [
            "MODE E",
            "OPTS RETR Parallelism=4,4,4;",
            "PORT",
            "RETR /dir/f",
            "CKSM ADLER32 0 -1 /dir/f",
            "RETR /dir/f",
            "RETR /dir/f"
        ]
    );
    assert_eq!(ran.metric("ftp_streams"), [4.0; 3]);
    assert_eq!(ran.metric("ftp_new_streams"), [4.0, 0.0, 0.0]);
    let (ran, commands) = run_recorded(kept(upload(4, 1_000_000, "adler32")), 3, 0);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 3], "{:?}", ran.notes);
    assert_eq!(commands.iter().filter(|command| *command == "PASV").count(), 1);
    assert_eq!(ran.metric("ftp_new_streams"), [4.0, 0.0, 0.0]);
    let (ran, commands) = run_recorded(request(4), 3, 10_000);
    assert_eq!(ran.metric("ftp_new_streams"), [4.0; 3]);
    assert_eq!(commands.iter().filter(|command| *command == "PORT").count(), 3);
}

#[test]
fn pipelined_commands_are_sent_before_the_replies() {
    for (data_connections, opened) in [("per-file", 2.0), ("kept", 0.0)] {
        let waiting = AtomicUsize::new(0);
        let server = answering(move |command, session| {
            if command.starts_with("CKSM") {
                session.reply(&format!("213 {}", sum(ChecksumKind::Adler32, &data(1000))));
                return true;
            }
            // No file is sent before all commands have arrived.
            if waiting.fetch_add(1, Ordering::SeqCst) % 3 == 2 {
                (0..3).for_each(|_| session.send(&data(1000), 300));
            }
            true
        });
        let mut wanted = request(2);
        wanted["paths"] = json!(["/f0", "/f1", "/f2"]);
        wanted["data"] = json!(data_connections);
        wanted["verify"] = json!("adler32");
        wanted["expect_bytes"] = json!(1000);
        let ran = run(ftp(&server, settings("kept"), wanted, 4));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 4], "{:?}", ran.notes);
        assert!(ran.transactions.iter().all(|t| (t.items, t.payload) == (3, 3000)));
        assert_eq!(ran.metric("ftp_new_streams"), [2.0, opened, opened, opened]);
    }
    let mut wanted = kept(upload(4, 100_000, "adler32"));
    wanted["paths"] = json!(["/f0", "/f1"]);
    let (ran, commands) = run_recorded(wanted, 2, 0);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
    assert!(
        ran.transactions
            .iter()
            .all(|t| (t.items, t.payload) == (2, 200_000))
    );
    assert_eq!(commands[2..4], ["STOR /dir/f0", "STOR /dir/f1"]);
}

#[test]
fn a_restart_transfers_the_rest_of_a_file() {
    for (streams, command) in [(1, "REST 2500"), (4, "REST 0-2500")] {
        let mut wanted = request(streams);
        wanted["restart_at"] = json!(2500);
        wanted["verify"] = json!("adler32");
        wanted["expect_bytes"] = json!(7500);
        let (ran, commands) = run_recorded(wanted, 2, 10_000);
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
        let at = commands.iter().position(|found| found == command).unwrap();
        assert_eq!(
            commands[at + 1..at + 3],
            ["RETR /dir/f", "CKSM ADLER32 2500 -1 /dir/f"]
        );
    }
    let mut wanted = upload(4, 10_000, "adler32");
    wanted["restart_at"] = json!(2500);
    let (ran, commands) = run_recorded(wanted, 1, 0);
    assert_eq!(ran.results(), [(Outcome::Ok, "")], "{:?}", ran.notes);
    assert_eq!(ran.transactions[0].payload, 7500);
    assert_eq!(commands[2..4], ["REST 0-2500", "STOR /dir/f"]);
    let mut wanted = upload(4, 0, "adler32");
    wanted["size"] = Value::Null;
    wanted["part"] = json!({"offset": 5000, "length": 2000});
    let (ran, commands) = run_recorded(wanted, 1, 0);
    assert_eq!(ran.results(), [(Outcome::Ok, "")], "{:?}", ran.notes);
    assert_eq!(ran.transactions[0].payload, 2000);
    assert_eq!(
        commands[2..],
        ["ESTO A 5000 /dir/f", "CKSM ADLER32 5000 2000 /dir/f"]
    );
}

#[test]
fn a_striped_transfer_uses_all_data_servers() {
    let mut wanted = kept(upload(2, 1_000_000, "adler32"));
    wanted["stripes"] = json!(2);
    let (ran, commands) = run_recorded(wanted.clone(), 2, 0);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
    assert_eq!(commands[1..3], ["SPAS", "STOR /dir/f"]);
    assert_eq!(ran.metric("ftp_streams"), [4.0; 2]);
    wanted["stripes"] = json!(1);
    let (ran, _) = run_recorded(wanted, 1, 0);
    assert_eq!(ran.results(), [(Outcome::Error, "bad response")]);
}

#[test]
fn a_striped_download_has_connections_for_each_stripe() {
    let mut wanted = kept(request(2));
    wanted["stripes"] = json!(3);
    wanted["verify"] = json!("adler32");
    wanted["expect_bytes"] = json!(10_000);
    let (ran, commands) = run_recorded(wanted, 2, 10_000);
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
    assert_eq!(commands[2].split(' ').count(), 4, "{}", commands[2]);
    assert!(commands[2].starts_with("SPOR 127,0,0,1,"));
    assert_eq!(ran.metric("ftp_streams"), [6.0; 2]);
    assert_eq!(ran.metric("ftp_new_streams"), [6.0, 0.0]);
}

#[test]
fn data_connections_that_the_server_has_closed_are_replaced() {
    // The server announces the end of its connections, or closes them without that.
    for announced in [true, false] {
        let server = answering(move |_, session| {
            session.last = if announced { CLOSE } else { 0 };
            session.send(&data(1000), 300);
            session.kept.clear();
            true
        });
        let mut wanted = ftp(&server, settings("kept"), kept(request(2)), 3);
        // The end of a connection arrives before the next transfer.
        wanted["workloads"][0]["load"]["think"] = json!({"kind": "fixed", "ns": 50 * MS});
        let ran = run(wanted);
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 3], "{:?}", ran.notes);
        assert_eq!(ran.metric("ftp_new_streams"), [2.0; 3]);
    }
}

#[test]
fn a_failure_among_pipelined_files_ends_the_connection() {
    let server = answering(|command, session| {
        if command == "RETR /dir/f1" {
            session.reply("550 no such file");
        } else {
            session.send(&data(1000), 300);
        }
        true
    });
    let mut wanted = kept(request(2));
    wanted["paths"] = json!(["/f0", "/f1", "/f2"]);
    let ran = run(ftp(&server, settings("kept"), wanted, 2));
    assert_eq!(ran.results(), [(Outcome::Error, "FTP 550"); 2]);
    assert_eq!(
        ran.transactions[1].session, 2,
        "the replies to the other commands are not read"
    );
    assert_eq!((ran.transactions[0].items, ran.transactions[0].payload), (0, 0));
}
