//! Strangers at the controller's door while a run goes on: they change nothing, get nothing, and
//! are gone in time.

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
/// A handshake has 10 s; what is still open after so long is not closed by that.
const OPEN: Duration = Duration::from_secs(60);
/// Most that they may make the engine hold.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The record and the beginning of a TLS hello: 512 bytes are to come.
const HELLO: [u8; 11] = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
/// The same with the greatest lengths that fit: a record of 64 KiB, a hello of 16 MiB.
const HUGE: [u8; 9] = [0x16, 3, 3, 0xff, 0xff, 1, 0xff, 0xff, 0xff];

/// Bytes of resident memory of a process: now, and at most so far.
fn memory(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let read = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        let number = line.split_ascii_whitespace().nth(1).unwrap();
        number.parse::<u64>().unwrap() * 1024
    };
    (read("VmRSS:"), read("VmHWM:"))
}

/// Bytes that look like nothing.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
}

/// One stranger of four kinds. Gives what it was sent, once its connection is closed.
fn stranger(port: u16, number: usize) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let since = Instant::now();
        let mut heard = Vec::new();
        // What cannot be written is a connection that is closed already.
        match number % 4 {
            0 => {}
            1 => drop(stream.write_all(&noise(number as u64).take(100_000).collect::<Vec<_>>())),
            2 => {
                // A byte at a time, until it is thrown out.
                stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                for byte in HELLO.into_iter().chain(noise(7)) {
                    let mut one = [0; 64];
                    let closed = stream.write_all(&[byte]).is_err() || matches!(stream.read(&mut one), Ok(0));
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
            "stranger {number} was not thrown out"
        );
        heard
    })
}

#[test]
fn garbage_and_slow_strangers_spoil_no_run() {
    let temp = TestDirectory::new("door");
    let directory = run_directory(&temp);
    let mut lab = Lab::start();
    let (token, port) = listen(&mut lab);
    let mut agent = dialling(&temp, "good", &token);
    lab.until("joined");
    // Longer than a handshake may take: all of them come and go under the run.
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
        // An alert of TLS at most, which names the kind of trouble and nothing else.
        assert!(heard.len() <= 64, "a stranger was told {heard:?}");
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
    let told: Vec<&Value> = events
        .iter()
        .filter(|event| event["kind"] == "stranger")
        .collect();
    let has = |text: &str| {
        told.iter()
            .any(|event| event["text"].as_str().unwrap().contains(text))
    };
    assert!(
        has("took too long") && has("the data is not the link protocol"),
        "{told:?}"
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
fn who_has_another_key_never_gets_to_the_lab() {
    let temp = TestDirectory::new("thief");
    let directory = run_directory(&temp);
    let (mut lab, mut other) = (Lab::start(), Lab::start());
    let (token, _) = listen(&mut lab);
    let (foreign, _) = listen(&mut other);
    // The controller that it dials is the right one, by its pin; its own key is that of another
    // experiment.
    let mut stolen = token.clone();
    for field in ["certificate", "key"] {
        assert_ne!(stolen[field], foreign[field]);
        stolen[field] = foreign[field].clone();
    }
    let thief = dialling(&temp, "thief", &stolen);
    // Told of at once, and not only when a run goes on: somebody may wait for it.
    let told = lab.until("note").pop().unwrap();
    assert_eq!((&told["kind"], &told["t_s"]), (&json!("stranger"), &json!(0.0)));
    let mut good = dialling(&temp, "good", &token);
    let came = lab.until("joined");
    assert_eq!(came[came.len() - 1]["name"], "good");
    run(
        &mut lab,
        &spec(&directory, 4 * SECOND),
        &[joined("good")],
        &json!({}),
    );
    // It tries again and again, as an agent does whose controller is away.
    let again = dialling(&temp, "again", &stolen);
    let events = lab.until("finished");
    let told = |event: &&Value| event["kind"] == "stranger";
    let refused = events.iter().find(told).expect("a stranger is an event");
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
    for one in [&thief, &again] {
        assert!(!one.directory.join("runs").exists(), "it was given a run");
    }
}

const OLD: &str = "0.0.1-old";

/// As an agent of version [`OLD`] comes that holds this token: by the right key, and with its own
/// version. Returns when it is thrown out.
fn comes_with_another_version(token: &Value, name: &str) {
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
        assert!(ended.is_ok(), "it was not thrown out");
        assert!(
            !heard.windows(7).any(|word| word == b"prepare"),
            "it was given a run"
        );
    });
}

#[test]
fn an_agent_of_another_version_is_told_of_and_takes_no_part() {
    let temp = TestDirectory::new("version");
    let directory = run_directory(&temp);
    let mut lab = Lab::start();
    let (token, _) = listen(&mut lab);
    // An engine that is itself asked to use the token of another version does not even dial.
    let mut other = token.clone();
    other["engine"] = json!(OLD);
    let mut strange = dialling(&temp, "strange", &other);
    wait_until(|| strange.try_wait());

    comes_with_another_version(&token, "before");
    let mut good = dialling(&temp, "good", &token);
    let mut events = lab.until("joined");
    run(
        &mut lab,
        &spec(&directory, 5 * SECOND),
        &[joined("good")],
        &json!({}),
    );
    events.extend(lab.until("second"));
    comes_with_another_version(&token, "meanwhile");
    // It has the name of one that takes part, and puts it out no more than anybody else.
    comes_with_another_version(&token, "good");
    comes_with_another_version(&token, "../evil");
    events.extend(lab.until("finished"));
    let evil = |event: &&Value| {
        event["text"]
            .as_str()
            .is_some_and(|text| text.contains("an agent named ../evil"))
    };
    let told: Vec<&Value> = events.iter().filter(evil).collect();
    assert!(
        matches!(told[..], [event] if event["kind"] == "agent-refused" && event["text"].as_str().unwrap().contains("a name consists of letters")),
        "{events:?}"
    );
    for name in ["before", "meanwhile", "good"] {
        let words = format!("an agent named {name} may not take part");
        let told: Vec<&str> = events
            .iter()
            .filter(|event| event["kind"] == "agent-refused")
            .filter_map(|event| event["text"].as_str())
            .filter(|text| text.contains(&words))
            .collect();
        assert!(
            matches!(told[..], [text] if text.contains(OLD) && text.contains(env!("CARGO_PKG_VERSION"))),
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
