//! The ftp driver with small servers: both modes, both directions, checksums, and hostile peers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_model::Outcome;
use plimsoll_wire::ftp::{Block, BlockReader, CLOSE, Checksum, ChecksumKind, Ends, header};
use serde_json::{Value, json};

use crate::harness::*;

/// A control connection of a server.
struct Session {
    control: TcpStream,
    passive: Vec<TcpListener>,
    port: u16,
    streams: usize,
    extended: bool,
    restart: usize,
    /// Data connections of the last transfer in extended block mode.
    kept: Vec<TcpStream>,
    /// Bits of the last block of each connection, with [`END_OF_DATA`].
    last: u8,
}

impl Session {
    fn new(control: TcpStream) -> Self {
        Self {
            control,
            passive: Vec::new(),
            port: 0,
            streams: 1,
            extended: false,
            restart: 0,
            kept: Vec::new(),
            last: 0,
        }
    }

    fn reply(&mut self, text: &str) {
        let _ = self.control.write_all(format!("{text}\r\n").as_bytes());
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)).unwrap()
    }

    fn accept(&self) -> TcpStream {
        self.passive[0].accept().unwrap().0
    }

    /// Listens on another port, which it returns as a reply contains it.
    fn listen(&mut self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        self.passive.push(listener);
        format!("{},{}", port >> 8, port & 255)
    }

    /// Replies to commands that need no file. Returns whether it was one.
    fn answer(&mut self, command: &str) -> bool {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        match word {
            "USER" => self.reply("331 password"),
            "PASS" => self.reply("230-welcome\r\n to this server\r\n230 ok"),
            "TYPE" => self.reply("200 ok"),
            "MODE" => {
                self.extended = rest == "E";
                self.reply("200 ok");
            }
            "OPTS" => {
                let number = rest.trim_start_matches("RETR Parallelism=").split(',').next();
                self.streams = number.unwrap().parse().unwrap();
                self.reply("200 ok");
            }
            "PASV" => {
                self.passive.clear();
                self.kept.clear();
                let port = self.listen();
                // The host is another one, to which testers must not connect.
                self.reply(&format!("227 Passive (192,0,2,1,{port})"));
            }
            "SPAS" => {
                self.passive.clear();
                self.kept.clear();
                let (one, two) = (self.listen(), self.listen());
                let lines = format!("229-Striped\r\n 127,0,0,1,{one}\r\n 127,0,0,1,{two}\r\n229 End");
                self.reply(&lines);
            }
            "REST" => {
                self.restart = rest.trim_start_matches("0-").parse().unwrap();
                self.reply("350 restart");
            }
            "PORT" => {
                self.kept.clear();
                let numbers: Vec<u16> = rest.split(',').map(|number| number.parse().unwrap()).collect();
                assert_eq!(numbers[..4], [127, 0, 0, 1]);
                self.port = numbers[4] << 8 | numbers[5];
                self.reply("200 ok");
            }
            _ => return false,
        }
        true
    }

    /// Sends `data` in the current mode, in blocks of `block` bytes with the last one first, or in
    /// a stream.
    fn send(&mut self, data: &[u8], block: usize) {
        self.reply("150 begin");
        if !self.extended {
            self.accept().write_all(data).unwrap();
            return self.reply("226 done");
        }
        let mut streams = std::mem::take(&mut self.kept);
        if streams.is_empty() {
            streams = (0..self.streams).map(|_| self.connect()).collect();
        }
        let blocks: Vec<&[u8]> = data.chunks(block).collect();
        let begin = std::mem::take(&mut self.restart);
        for (index, bytes) in blocks.iter().enumerate().rev() {
            let head = header(0, bytes.len() as u64, (begin + index * block) as u64);
            let stream = &mut streams[index % self.streams];
            stream.write_all(&head).unwrap();
            stream.write_all(bytes).unwrap();
        }
        let count = self.streams as u64;
        for (index, stream) in streams.iter_mut().enumerate() {
            let last = if index == 0 {
                header(0x48 | self.last, 0, count)
            } else {
                header(8 | self.last, 0, 0)
            };
            stream.write_all(&last).unwrap();
        }
        self.kept = streams;
        self.reply("226 done");
    }

    /// Receives a file in the current mode, from `streams` connections.
    fn receive(&mut self, streams: usize) -> Vec<u8> {
        self.reply("150-begin\r\n150 now");
        let mut data = Vec::new();
        if !self.extended {
            self.accept().read_to_end(&mut data).unwrap();
            self.reply("226 done");
            return data;
        }
        let servers = self.passive.len();
        let mut ends = vec![Ends::default(); servers];
        let mut connections = std::mem::take(&mut self.kept);
        if connections.is_empty() {
            let count = streams / self.passive.len();
            let all = self.passive.iter();
            connections = all
                .flat_map(|one| (0..count).map(move |_| one.accept().unwrap().0))
                .collect();
        }
        for (index, stream) in connections.iter_mut().enumerate() {
            let ends = &mut ends[index * servers / streams];
            let mut bytes = Vec::new();
            let mut reader = BlockReader::default();
            while !reader.is_ended() {
                let mut piece = vec![0; 100_000];
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "a connection ends without its end of data");
                bytes.clear();
                bytes.extend_from_slice(&piece[..count]);
                let mut rest = &bytes[..];
                while let Some(block) = reader.next(&mut rest).unwrap() {
                    match block {
                        Block::Data { offset, bytes } => {
                            let (begin, end) = (offset as usize, offset as usize + bytes.len());
                            data.resize(data.len().max(end), 0);
                            data[begin..end].copy_from_slice(bytes);
                        }
                        Block::EndOfFile { connections } => ends.expect(connections, streams as u64).unwrap(),
                        Block::EndOfData => ends.add().unwrap(),
                    }
                }
            }
        }
        assert!(ends.iter().all(Ends::is_complete));
        self.kept = connections;
        self.reply("112-Perf Marker\r\n Timestamp: 1\r\n112 End\r\n226 done");
        data
    }
}

/// Serves a control connection: `answer` is called with the commands that need a file, and returns
/// whether the connection continues.
fn serve(control: TcpStream, answer: &impl Fn(&str, &mut Session) -> bool) {
    let mut session = Session::new(control.try_clone().unwrap());
    session.reply("220 test");
    for line in BufReader::new(control).lines() {
        let Ok(line) = line else { return };
        if line == "QUIT" || !(session.answer(&line) || answer(&line, &mut session)) {
            return;
        }
    }
}

fn answering(answer: impl Fn(&str, &mut Session) -> bool + Send + Sync + 'static) -> Server {
    Server::start(move |stream| serve(stream, &answer))
}

fn settings(connection: &str) -> Value {
    json!({"connection": connection, "login": {"user": "me", "password": "secret"}})
}

fn request(streams: u32) -> Value {
    json!({
        "paths": ["/f"], "transfer": "download", "size": null, "part": null, "restart_at": null,
        "mode": if streams > 1 { "extended" } else { "stream" }, "streams": streams, "stripes": null,
        "data": "per-file", "verify": null, "expect_bytes": null,
    })
}

fn upload(streams: u32, size: u64, verify: &str) -> Value {
    let mut request = request(streams);
    request["transfer"] = json!("upload");
    request["size"] = json!(size);
    request["verify"] = json!(verify);
    request
}

fn ftp(server: &Server, settings: Value, request: Value, transactions: u64) -> Value {
    let url = format!("{}/dir", server.url("ftp"));
    let end = json!({"transactions": transactions});
    spec("ftp", &url, settings, request, closed(1), end)
}

fn data(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn sum(kind: ChecksumKind, data: &[u8]) -> String {
    let mut checksum = Checksum::new(kind);
    checksum.add(0, data);
    checksum.text()
}

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

/// Runs `request`, which transfers `/dir/f0`, `/dir/f1` and so on as [`data`] with this length.
/// Returns the commands in which addresses of data connections were negotiated, too.
fn run_recorded(request: Value, transactions: u64, length: usize) -> (RunResult, Vec<String>) {
    let commands = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&commands);
    let server = Server::start(move |stream| {
        let seen = Arc::clone(&seen);
        let stored = Mutex::new(Vec::new());
        serve_recorded(stream, &seen, &|command, session| {
            let (word, rest) = command.split_once(' ').unwrap();
            match word {
                "RETR" => {
                    let begin = session.restart;
                    session.send(&data(length)[begin..], 1000);
                }
                "ERET" => session.send(&data(length), 1000),
                "STOR" | "ESTO" => *stored.lock().unwrap() = session.receive(4),
                "CKSM" => {
                    let stored = stored.lock().unwrap();
                    let words: Vec<&str> = rest.split(' ').collect();
                    let begin: usize = words[1].parse().unwrap();
                    let whole = if stored.is_empty() {
                        data(length)
                    } else {
                        stored.clone()
                    };
                    let bytes = if words[2] == "-1" {
                        &whole[begin..]
                    } else {
                        &whole[..]
                    };
                    session.reply(&format!("213 {}", sum(ChecksumKind::Adler32, bytes)));
                }
                other => panic!("{other}"),
            }
            true
        });
    });
    let ran = run(ftp(&server, settings("kept"), request, transactions));
    let commands = commands.lock().unwrap().clone();
    (ran, commands)
}

/// As [`serve`], and records the commands after the login.
fn serve_recorded(
    control: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &impl Fn(&str, &mut Session) -> bool,
) {
    let mut session = Session::new(control.try_clone().unwrap());
    session.reply("220 test");
    for line in BufReader::new(control).lines() {
        let Ok(line) = line else { return };
        if line == "QUIT" {
            return;
        }
        if !["USER", "PASS", "TYPE"].iter().any(|word| line.starts_with(word)) {
            let word = line.split(' ').next().unwrap_or_default();
            let is_address = ["PORT", "PASV", "SPAS"].contains(&word);
            let text = if is_address { word } else { line.as_str() };
            seen.lock().unwrap().push(text.to_owned());
        }
        if !(session.answer(&line) || answer(&line, &mut session)) {
            return;
        }
    }
}

fn kept(mut request: Value) -> Value {
    request["data"] = json!("kept");
    request
}

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
