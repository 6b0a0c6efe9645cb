//! Replies that are no success, and peers that break the protocol.

use super::*;

#[test]
fn a_block_before_the_requested_bytes_is_an_error() {
    let server = answering(|_, session| {
        session.restart = 0;
        session.send(&data(1000), 300);
        true
    });
    let mut wanted = request(2);
    wanted["restart_at"] = json!(500);
    let ran = run(ftp(&server, settings("kept"), wanted, 1));
    assert_eq!(ran.results(), [(Outcome::Error, "bad response")]);
}

#[test]
fn a_checksum_that_is_not_sent_in_time_is_a_timeout() {
    let server = answering(|command, session| {
        if command.starts_with("RETR") {
            session.send(&data(1000), 300);
        } else if command.starts_with("STOR") {
            session.receive(2);
        }
        true // No reply to CKSM.
    });
    let mut download = request(2);
    download["verify"] = json!("adler32");
    for request in [download, upload(2, 1000, "adler32")] {
        let mut wanted = ftp(&server, settings("kept"), request, 2);
        wanted["workloads"][0]["timeout_ns"] = json!(300 * MS);
        let ran = run(wanted);
        assert_eq!(ran.results(), [(Outcome::Timeout, "timeout body"); 2]);
        for t in &ran.transactions {
            assert_eq!((t.items, t.payload), (0, 0));
            assert!(t.end - t.start >= 250 * MS, "{t:?}");
        }
    }
}

#[test]
fn replies_that_are_no_success_have_their_code() {
    for (reply, outcome, code) in [
        ("550 no such file", Outcome::Error, "FTP 550"),
        (
            "500-Command failed.\r\n500-a reason\r\n500 End.",
            Outcome::Error,
            "FTP 500",
        ),
        ("150 begin\r\n426 aborted", Outcome::Error, "FTP 426"),
    ] {
        let server = answering(move |_, session| {
            session.reply(reply);
            true
        });
        for streams in [1, 2] {
            let ran = run(ftp(&server, settings("kept"), request(streams), 2));
            assert_eq!(ran.results(), [(outcome, code); 2]);
            assert_eq!(ran.transactions[1].session, 1, "the connection is kept");
            assert_eq!((ran.transactions[0].items, ran.transactions[0].payload), (0, 0));
        }
    }
    for (greeting, code) in [
        ("421 too many connections", "FTP 421"),
        ("220 hi\r\n530 who?", "FTP 530"),
    ] {
        let server = Server::start(move |mut stream| {
            let _ = stream.write_all(format!("{greeting}\r\n").as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let ran = run(ftp(&server, settings("kept"), request(1), 1));
        assert_eq!(ran.results(), [(Outcome::Refused, code)]);
        assert!(
            ran.notes.iter().any(|(_, text)| text.starts_with("ftp: ")),
            "{:?}",
            ran.notes
        );
    }
}

#[test]
fn a_kept_connection_that_was_closed_is_replaced_within_the_transaction() {
    // The server closes each connection behind its second transfer command.
    let server = Server::start(|stream| {
        let transfers = AtomicUsize::new(0);
        serve(stream, &|_, session| {
            if transfers.fetch_add(1, Ordering::SeqCst) == 1 {
                return false;
            }
            session.send(b"data", 0);
            true
        });
    });
    let ran = run(ftp(&server, settings("kept"), request(1), 3));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 3]);
    let attempts: Vec<u16> = ran.transactions.iter().map(|t| t.attempt).collect();
    assert_eq!(attempts, [0, 1, 1]);
}

#[test]
fn a_value_cannot_begin_another_command() {
    let server = answering(|command, _| panic!("{command}"));
    let mut wanted = request(1);
    wanted["paths"] = json!(["/{name}"]);
    let mut wanted = ftp(&server, settings("kept"), wanted, 1);
    wanted["workloads"][0]["values"] =
        json!({"name": {"kind": "list", "items": ["f\r\nDELE f"], "order": "round-robin"}});
    assert_eq!(run(wanted).results(), [(Outcome::Error, "invalid path")]);
}

#[test]
fn peers_that_break_the_protocol_end_the_transaction() {
    let silent = Server::start(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let nonsense = Server::start(|mut stream| {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let endless_reply = Server::start(|mut stream| {
        let mut result = stream.write_all(b"220-\r\n");
        while result.is_ok() {
            result = stream.write_all(&[b'x'; 10_000]);
        }
    });
    let preliminary = answering(|_, session| {
        while session.control.write_all(&b"150 wait\r\n".repeat(1000)).is_ok() {}
        false
    });
    let no_port = Server::start(|stream| {
        let mut control = stream.try_clone().unwrap();
        control.write_all(b"220 hi\r\n").unwrap();
        for _ in BufReader::new(stream).lines() {
            let _ = control.write_all(b"230 whatever\r\n");
        }
    });
    let no_data = answering(|_, session| {
        session.reply("150 begin\r\n226 done");
        true
    });
    let cut_block = answering(|_, session| {
        session.reply("150 begin");
        session.connect().write_all(&header(0, 1000, 0)).unwrap();
        session.reply("226 done");
        true
    });
    let impossible = answering(|_, session| {
        session.reply("150 begin");
        let mut stream = session.connect();
        stream.write_all(&header(0x48, 0, 1 << 60)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        true
    });
    let crowd = answering(|_, session| {
        session.reply("150 begin");
        let streams: Vec<TcpStream> = (0..10).map(|_| session.connect()).collect();
        let _ = (&streams[0]).read_to_end(&mut Vec::new());
        true
    });
    // 2^62 bytes are announced; they arrive until the timeout, and are discarded.
    let endless = answering(|_, session| {
        session.reply("150 begin");
        let mut stream = session.connect();
        let zeros = vec![0; 1 << 20];
        let mut result = stream.write_all(&header(0, 1 << 62, 0));
        while result.is_ok() {
            result = stream.write_all(&zeros);
        }
        true
    });
    for (server, streams, outcome, code) in [
        (&silent, 1, Outcome::Timeout, "timeout connect"),
        (&nonsense, 1, Outcome::Error, "bad response"),
        (&endless_reply, 1, Outcome::Error, "answer too long"),
        (&preliminary, 1, Outcome::Timeout, "timeout first byte"),
        (&no_port, 1, Outcome::Error, "bad response"),
        (&no_data, 1, Outcome::Timeout, "timeout first byte"),
        (&no_data, 2, Outcome::Timeout, "timeout first byte"),
        (&cut_block, 2, Outcome::Error, "closed early"),
        (&impossible, 2, Outcome::Error, "bad response"),
        (&crowd, 2, Outcome::Error, "bad response"),
        (&endless, 2, Outcome::Timeout, "timeout body"),
    ] {
        let mut wanted = ftp(server, settings("kept"), request(streams), 1);
        wanted["workloads"][0]["timeout_ns"] = json!(300 * MS);
        let ran = run(wanted);
        assert_eq!(ran.results(), [(outcome, code)], "{:?}", ran.notes);
        assert_eq!((ran.transactions[0].items, ran.transactions[0].payload), (0, 0));
    }
}

#[test]
fn an_upload_that_the_server_ends_early_is_no_success() {
    let refusing = answering(|_, session| {
        session.reply("553 read-only");
        true
    });
    let early = answering(|_, session| {
        session.reply("150 begin");
        drop(session.accept());
        session.reply("226 done");
        true
    });
    let failing = answering(|_, session| {
        session.reply("150 begin");
        drop(session.accept());
        session.reply("452 disk full");
        true
    });
    for (server, code) in [
        (&refusing, "FTP 553"),
        (&early, "closed early"),
        (&failing, "FTP 452"),
    ] {
        let mut wanted = upload(1, 50_000_000, "adler32");
        wanted["verify"] = Value::Null;
        let ran = run(ftp(server, settings("kept"), wanted, 1));
        assert_eq!(ran.results(), [(Outcome::Error, code)]);
        assert_eq!((ran.transactions[0].items, ran.transactions[0].payload), (0, 0));
    }
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let server = answering(|_, _| false);
    let changed = |key: &str, value: Value| {
        let mut wanted = request(1);
        wanted[key] = value;
        wanted
    };
    let mut unordered = request(2);
    unordered["verify"] = json!("md5");
    let mut striped = request(2);
    striped["stripes"] = json!(2);
    for (request, message) in [
        (changed("streams", json!(0)), "expected 1 to 64, got 0"),
        (changed("streams", json!(65)), "expected 1 to 64, got 65"),
        (
            changed("streams", json!(2)),
            "more than one stream needs mode: extended",
        ),
        (
            changed("stripes", json!(2)),
            "a striped transfer needs mode: extended",
        ),
        (changed("data", json!("kept")), "data: kept needs mode: extended"),
        (
            changed("paths", json!(["/a", "/b"])),
            "a transaction of several files needs mode: extended",
        ),
        (changed("paths", json!([])), "expected 1 to 100 files, got 0"),
        (
            changed("transfer", json!("upload")),
            "an upload needs either a size",
        ),
        (unordered, "md5 needs the bytes in their order"),
        (
            changed("part", json!({"offset": i64::MAX, "length": 1})),
            "the bytes are above 2^63",
        ),
        (changed("restart_at", json!(u64::MAX)), "the bytes are above 2^63"),
    ] {
        let text = refused(ftp(&server, settings("kept"), request, 1));
        assert!(text.contains(message), "{text}");
    }
    let mut login = settings("kept");
    login["login"]["password"] = json!("a\r\nDELE f");
    let text = refused(ftp(&server, login, request(1), 1));
    assert!(text.contains("login: the password contains a line end"), "{text}");
    let url = "ftp://127.0.0.1/f?x";
    let end = json!({"transactions": 1});
    let text = refused(spec("ftp", url, settings("kept"), request(1), closed(1), end));
    assert!(text.contains("expected ftp://HOST:PORT/DIRECTORY"), "{text}");
}
