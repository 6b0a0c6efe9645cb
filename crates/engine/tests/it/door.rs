//! Clients without the key at the controller's door during a run: they do not change the run, get
//! no data, and are disconnected in time.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use plimsoll_link::dial::Dialer;
use plimsoll_link::token::Token;
use plimsoll_link::{Frame, Greeting};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{Lab, TestDirectory, spec};
use crate::hosts::{dialling, joined, listen, run, run_directory, wait_until};

const SECOND: u64 = 1_000_000_000;
const STRANGERS: usize = 200;
/// A handshake has 10 s. A connection that is open after this time was not closed by that limit.
const OPEN: Duration = Duration::from_secs(60);
/// Maximum growth of the engine's memory, bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The record header and the beginning of a TLS hello of 512 bytes.
const HELLO: [u8; 11] = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
/// The same with the greatest lengths that fit: a record of 64 KiB, a hello of 16 MiB.
const HUGE: [u8; 9] = [0x16, 3, 3, 0xff, 0xff, 1, 0xff, 0xff, 0xff];

/// Resident memory of a process, bytes: present and maximum.
fn memory(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let read = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        let number = line.split_ascii_whitespace().nth(1).unwrap();
        number.parse::<u64>().unwrap() * 1024
    };
    (read("VmRSS:"), read("VmHWM:"))
}

/// Pseudo-random bytes.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
}

/// Starts a stranger of one of four kinds. Returns the bytes that it received until its connection
/// was closed.
fn stranger(port: u16, number: usize) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let since = Instant::now();
        let mut heard = Vec::new();
        // A write fails if the connection is already closed.
        match number % 4 {
            0 => {}
            1 => drop(stream.write_all(&noise(number as u64).take(100_000).collect::<Vec<_>>())),
            2 => {
                // One byte at a time, until the connection is closed.
                stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                for byte in HELLO.into_iter().chain(noise(7)) {
                    let mut answer = [0; 64];
                    let closed =
                        stream.write_all(&[byte]).is_err() || matches!(stream.read(&mut answer), Ok(0));
                    if closed || since.elapsed() > OPEN {
                        break;
                    }
                }
            }
            _ => {
                let body: Vec<u8> = HUGE.into_iter().chain(noise(9).take(1_000_000)).collect();
                drop(stream.write_all(&body));
            }
        }
        stream.set_read_timeout(Some(OPEN)).unwrap();
        let ended = stream.read_to_end(&mut heard);
        let open = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(
            !open && since.elapsed() < OPEN,
            "stranger {number} was not disconnected"
        );
        heard
    })
}

#[test]
fn invalid_and_slow_clients_do_not_change_a_run() {
    let temp = TestDirectory::new("door");
    let directory = run_directory(&temp);
    let mut lab = Lab::start();
    let (token, port) = listen(&mut lab);
    let mut agent = dialling(&temp, "good", &token);
    lab.until("joined");
    // Longer than the limit of a handshake: all strangers are disconnected during the run.
    run(
        &mut lab,
        &spec(&directory, 20 * SECOND),
        &[joined("good")],
        &json!({}),
    );
    lab.until("second");
    let (before, _) = memory(lab.process.id());
    let strangers: Vec<_> = (0..STRANGERS).map(|number| stranger(port, number)).collect();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..500 {
        let bytes: Vec<u8> = noise(number).take(1200).collect();
        datagrams.send_to(&bytes, ("127.0.0.1", port)).unwrap();
        sleep(Duration::from_millis(1));
    }
    for stranger in strangers {
        let heard = stranger.join().unwrap();
        // At most a TLS alert, which only contains the kind of error.
        assert!(heard.len() <= 64, "a stranger received {heard:?}");
    }
    let (_, most) = memory(lab.process.id());
    assert!(
        most.saturating_sub(before) < MAX_BYTES,
        "the engine had {before} bytes, and {most} with strangers"
    );
    let events = lab.until("finished");
    let finished = &events[events.len() - 1];
    assert_eq!(
        (&finished["status"], &finished["balanced"], &finished["damage"]),
        (&json!("done"), &json!(true), &json!([])),
        "{finished}"
    );
    let notes: Vec<&Value> = events
        .iter()
        .filter(|event| event["kind"] == "stranger")
        .collect();
    let has = |text: &str| {
        notes
            .iter()
            .any(|event| event["text"].as_str().unwrap().contains(text))
    };
    assert!(
        has("took too long") && has("the data is not the link protocol"),
        "{notes:?}"
    );
    assert!(
        !events.iter().any(|event| event["kind"] == "link-cut"),
        "{events:?}"
    );
    lab.say(&json!({"type": "quit"}));
    lab.wait();
    wait_until(|| agent.try_wait());
}

#[test]
fn an_agent_with_another_key_is_reported_and_takes_no_part() {
    let temp = TestDirectory::new("thief");
    let directory = run_directory(&temp);
    let (mut lab, mut other) = (Lab::start(), Lab::start());
    let (token, _) = listen(&mut lab);
    let (foreign, _) = listen(&mut other);
    // The pin is that of the controller; the agent's own key is that of another experiment.
    let mut stolen = token.clone();
    for field in ["certificate", "key"] {
        assert_ne!(stolen[field], foreign[field]);
        stolen[field] = foreign[field].clone();
    }
    let thief = dialling(&temp, "thief", &stolen);
    // It is reported at once, also without a run, because the user may wait for it.
    let note = lab.until("note").pop().unwrap();
    assert_eq!((&note["kind"], &note["t_s"]), (&json!("stranger"), &json!(0.0)));
    let mut good = dialling(&temp, "good", &token);
    let came = lab.until("joined");
    assert_eq!(came[came.len() - 1]["name"], "good");
    run(
        &mut lab,
        &spec(&directory, 4 * SECOND),
        &[joined("good")],
        &json!({}),
    );
    // It dials repeatedly, as an agent does without a controller.
    let again = dialling(&temp, "again", &stolen);
    let events = lab.until("finished");
    let is_stranger = |event: &&Value| event["kind"] == "stranger";
    let refused = events.iter().find(is_stranger).expect("a stranger is an event");
    let text = refused["text"].as_str().unwrap();
    assert!(
        text.contains("its key is not the key of this experiment's agents"),
        "{text}"
    );
    let named = |event: &Value| event.to_string().contains("thief") || event.to_string().contains("again");
    assert!(!came.iter().chain(&events).any(named), "{events:?}");
    assert_eq!(events[events.len() - 1]["balanced"], true);
    drop((lab, other));
    wait_until(|| good.try_wait());
    for agent in [&thief, &again] {
        assert!(!agent.directory.join("runs").exists(), "it received a run");
    }
}

const OLD: &str = "0.0.1-old";

/// Dials in as an agent of version [`OLD`] with the key of this token. Returns when the connection
/// is closed.
fn dial_with_another_version(token: &Value, name: &str) {
    let mut token = token.clone();
    token["engine"] = json!(OLD);
    let token = Token::parse(token.to_string().as_bytes()).unwrap();
    let greeting = Greeting {
        name: Some(name.into()),
        ..Greeting::new(OLD)
    };
    let mut bytes = BytesMut::new();
    Frame::Greeting(serde_json::to_vec(&greeting).unwrap().into())
        .write(&mut bytes)
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut link = Dialer::new(&token, OLD).unwrap().dial(OPEN).await.unwrap();
        link.writer.write_all(&bytes).await.unwrap();
        link.writer.flush().await.unwrap();
        let mut heard = Vec::new();
        let ended = tokio::time::timeout(OPEN, link.reader.read_to_end(&mut heard)).await;
        assert!(ended.is_ok(), "it was not disconnected");
        assert!(
            !heard.windows(7).any(|word| word == b"prepare"),
            "it received a run"
        );
    });
}

#[test]
fn an_agent_of_another_version_is_reported_and_takes_no_part() {
    let temp = TestDirectory::new("version");
    let directory = run_directory(&temp);
    let mut lab = Lab::start();
    let (token, _) = listen(&mut lab);
    // An engine does not dial with a token of another version.
    let mut other = token.clone();
    other["engine"] = json!(OLD);
    let mut strange = dialling(&temp, "strange", &other);
    wait_until(|| strange.try_wait());

    dial_with_another_version(&token, "before");
    let mut good = dialling(&temp, "good", &token);
    let mut events = lab.until("joined");
    run(
        &mut lab,
        &spec(&directory, 5 * SECOND),
        &[joined("good")],
        &json!({}),
    );
    events.extend(lab.until("second"));
    dial_with_another_version(&token, "meanwhile");
    // It has the name of a connected agent, and does not replace it.
    dial_with_another_version(&token, "good");
    dial_with_another_version(&token, "../evil");
    events.extend(lab.until("finished"));
    let evil = |event: &&Value| {
        event["text"]
            .as_str()
            .is_some_and(|text| text.contains("an agent named ../evil"))
    };
    let notes: Vec<&Value> = events.iter().filter(evil).collect();
    assert!(
        matches!(notes[..], [event] if event["kind"] == "agent-refused" && event["text"].as_str().unwrap().contains("a name consists of letters")),
        "{events:?}"
    );
    for name in ["before", "meanwhile", "good"] {
        let words = format!("an agent named {name} may not take part");
        let notes: Vec<&str> = events
            .iter()
            .filter(|event| event["kind"] == "agent-refused")
            .filter_map(|event| event["text"].as_str())
            .filter(|text| text.contains(&words))
            .collect();
        assert!(
            matches!(notes[..], [text] if text.contains(OLD) && text.contains(env!("CARGO_PKG_VERSION"))),
            "{events:?}"
        );
    }
    let finished = &events[events.len() - 1];
    assert_eq!(
        (&finished["status"], &finished["balanced"], &finished["lost"]),
        (&json!("done"), &json!(true), &json!([])),
        "{finished}"
    );
    drop(lab);
    wait_until(|| good.try_wait());
}
