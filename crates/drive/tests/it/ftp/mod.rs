//! The ftp driver with small servers: both modes, both directions, checksums, and hostile peers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_model::Outcome;
use plimsoll_wire::ftp::{Block, BlockReader, CLOSE, Checksum, ChecksumKind, Ends, header};
use serde_json::{Value, json};

use crate::harness::*;

mod channels;
mod hostile;
mod transfers;

/// A control connection of a server.
struct Session {
    control: TcpStream,
    passive: Vec<TcpListener>,
    port: u16,
    streams: usize,
    stripes: usize,
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
            stripes: 1,
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
            "PORT" | "SPOR" => {
                self.kept.clear();
                let addresses: Vec<&str> = rest.split(' ').collect();
                assert!(addresses.iter().all(|&address| address == addresses[0]));
                self.stripes = addresses.len();
                let rest = addresses[0];
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
            let count = self.streams * self.stripes;
            streams = (0..count).map(|_| self.connect()).collect();
        }
        let blocks: Vec<&[u8]> = data.chunks(block).collect();
        let begin = std::mem::take(&mut self.restart);
        for (index, bytes) in blocks.iter().enumerate().rev() {
            let head = header(0, bytes.len() as u64, (begin + index * block) as u64);
            let count = streams.len();
            let stream = &mut streams[index % count];
            stream.write_all(&head).unwrap();
            stream.write_all(bytes).unwrap();
        }
        let count = self.streams as u64;
        for (index, stream) in streams.iter_mut().enumerate() {
            // Each stripe ends with the number of its own connections.
            let last = if index % self.streams == 0 {
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
