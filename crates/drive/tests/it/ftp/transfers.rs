//! Downloads and uploads in both modes.

use super::*;

#[test]
fn a_stream_is_counted_and_a_kept_connection_logs_in_once() {
    let commands = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&commands);
    let server = answering(move |command, session| {
        seen.lock().unwrap().push(command.to_owned());
        session.send(&data(300_000), 0);
        true
    });
    for (connection, logins) in [("kept", 1), ("per-request", 3)] {
        let before = server.connections.load(Ordering::SeqCst);
        let ran = run(ftp(&server, settings(connection), request(1), 3));
        assert_eq!(ran.results(), [(Outcome::Ok, ""); 3]);
        assert_eq!(
            server.connections.load(Ordering::SeqCst) - before,
            logins,
            "{connection}"
        );
        assert_eq!(ran.metric("ftp_login_s").len(), logins);
        assert!(ran.metric("ftp_streams").is_empty());
        for t in &ran.transactions {
            assert_eq!((t.items, t.payload), (1, 300_000));
            assert!(t.received > t.payload && t.received < t.payload + 300, "{t:?}");
            assert!(t.first_byte > t.start && t.end >= t.first_byte);
        }
        let connected = ran.transactions.iter().filter(|t| t.connected >= 0).count();
        assert_eq!(connected, logins);
    }
    assert_eq!(
        commands.lock().unwrap()[..3],
        ["RETR /dir/f", "RETR /dir/f", "RETR /dir/f"]
    );
}

#[test]
fn blocks_of_several_connections_are_one_file() {
    let sums = Arc::new(AtomicUsize::new(0));
    let requested = Arc::clone(&sums);
    let server = answering(move |command, session| {
        match command.split_once(' ').unwrap() {
            ("RETR", "/dir/f") => session.send(&data(1_000_000), 100_000),
            ("CKSM", "ADLER32 0 -1 /dir/f") => {
                requested.fetch_add(1, Ordering::SeqCst);
                let sum = sum(ChecksumKind::Adler32, &data(1_000_000)).to_uppercase();
                session.reply(&format!("213 {sum}"));
            }
            other => panic!("{other:?}"),
        }
        true
    });
    let mut verified = request(4);
    verified["verify"] = json!("adler32");
    verified["expect_bytes"] = json!(1_000_000);
    let ran = run(ftp(&server, settings("kept"), verified.clone(), 3));
    assert_eq!(ran.results(), [(Outcome::Ok, ""); 3], "{:?}", ran.notes);
    assert!(
        ran.transactions
            .iter()
            .all(|t| (t.items, t.payload) == (1, 1_000_000))
    );
    assert_eq!(ran.metric("ftp_streams"), [4.0; 3]);
    assert_eq!(
        sums.load(Ordering::SeqCst),
        1,
        "the checksum of a file is requested once"
    );
    verified["expect_bytes"] = json!(1);
    let ran = run(ftp(&server, settings("kept"), verified, 1));
    assert_eq!(ran.results(), [(Outcome::Wrong, "unexpected bytes")]);
}

#[test]
fn a_content_that_is_not_the_servers_is_wrong() {
    let server = answering(|command, session| {
        if command.starts_with("RETR") {
            session.send(&data(1000), 100);
        } else {
            session.reply("213 f96b697d7cb7938d525a2f31aaf161d0");
        }
        true
    });
    for (streams, verify) in [(1, "md5"), (2, "adler32")] {
        let mut wanted = request(streams);
        wanted["verify"] = json!(verify);
        let ran = run(ftp(&server, settings("kept"), wanted, 2));
        assert_eq!(ran.results(), [(Outcome::Wrong, "wrong checksum"); 2]);
        assert_eq!(ran.transactions[1].session, 1, "the connection is kept");
        let is_stated = |(_, text): &(&str, String)| text.contains("the server has f96b");
        assert!(ran.notes.iter().any(is_stated), "{:?}", ran.notes);
    }
}

#[test]
fn uploads_arrive_as_they_were_generated() {
    let files = Arc::new(Mutex::new(Vec::new()));
    let stored = Arc::clone(&files);
    let server = answering(move |command, session| {
        match command.split_once(' ').unwrap() {
            ("STOR", "/dir/f") => {
                // The number of connections is that of the test; one in stream mode.
                let data = session.receive(3);
                stored.lock().unwrap().push(data);
            }
            ("CKSM", rest) => {
                let kind = if rest.starts_with("MD5") {
                    ChecksumKind::Md5
                } else {
                    ChecksumKind::Adler32
                };
                let sum = sum(kind, stored.lock().unwrap().last().unwrap());
                session.reply(&format!("213 {sum}"));
            }
            other => panic!("{other:?}"),
        }
        true
    });
    for (streams, verify) in [(1, "md5"), (3, "adler32"), (3, "md5")] {
        for size in [1, 1_000_000] {
            let ran = run(ftp(&server, settings("kept"), upload(streams, size, verify), 2));
            assert_eq!(ran.results(), [(Outcome::Ok, ""); 2], "{:?}", ran.notes);
            for t in &ran.transactions {
                assert_eq!((t.items, t.payload), (1, size));
                assert!(t.sent > size && t.sent < size + 1000, "{t:?}");
            }
            let files = std::mem::take(&mut *files.lock().unwrap());
            assert!(files.len() == 2 && files.iter().all(|file| file.len() as u64 == size));
            assert!(size == 1 || files[0][..1000] != files[0][1000..2000]);
        }
    }
}

#[test]
fn a_part_is_requested_by_its_offset() {
    let server = answering(|command, session| {
        assert_eq!(command, "ERET P 5 10 /dir/f");
        session.send(&data(10), 4);
        true
    });
    for (streams, length, results) in [(1, 10, (Outcome::Ok, "")), (2, 10, (Outcome::Ok, ""))] {
        let mut part = request(streams);
        part["part"] = json!({"offset": 5, "length": length});
        let ran = run(ftp(&server, settings("kept"), part, 2));
        assert_eq!(ran.results(), [results; 2]);
        assert_eq!(ran.transactions[0].payload, 10);
    }
}
