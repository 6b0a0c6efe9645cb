//! Two sides over streams that are cut, silent, or strange.

use plimsoll_clock::SystemClock;
use tokio::io::{DuplexStream, duplex, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;
use crate::VersionError;

const LONG_SILENCE: Duration = Duration::from_secs(60);

struct Handler(UnboundedSender<LineEvent>);

impl LineHandler for Handler {
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError> {
        Ok(theirs
            .check("the other", "side", "1.2.3")
            .map_err(|error: VersionError| error)?)
    }

    async fn handle_event(&mut self, heard: LineEvent) -> Result<(), LinkError> {
        self.0.send(heard).map_err(|_| LinkError::Closed)
    }
}

struct Side {
    line: Line,
    heard: UnboundedReceiver<LineEvent>,
    handler: UnboundedSender<LineEvent>,
    own: Greeting,
}

impl Side {
    fn new() -> Self {
        let (handler, heard) = unbounded_channel();
        Self {
            line: Line::new(Arc::new(SystemClock)),
            heard,
            handler,
            own: Greeting::new("1.2.3"),
        }
    }

    /// Speaks over `stream` in the background.
    fn over(&self, stream: DuplexStream, silence: Duration) -> tokio::task::JoinHandle<LinkError> {
        self.over_with(stream, LinkTimeouts::without_login(silence))
    }

    fn over_with(&self, stream: DuplexStream, timeouts: LinkTimeouts) -> tokio::task::JoinHandle<LinkError> {
        let (line, own, mut handler) = (self.line.clone(), self.own.clone(), Handler(self.handler.clone()));
        tokio::spawn(async move {
            let (reader, writer) = split(stream);
            line.converse(reader, writer, &own, &mut handler, timeouts).await
        })
    }

    async fn message(&mut self) -> u32 {
        match timeout(LONG_SILENCE, self.heard.recv()).await.unwrap().unwrap() {
            LineEvent::Message(body) => serde_json::from_slice(&body).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_said_arrives_once_and_in_order_over_links_that_are_cut() {
    let (near, mut far) = (Side::new(), Side::new());
    let mut said = 0;
    let mut found = 0;
    for cut in [3_u32, 0, 17, 40, 1] {
        // Said without a link.
        near.line.send(&said).unwrap();
        said += 1;
        let (a, b) = duplex(64);
        let (one, other) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
        for _ in 0..cut {
            near.line.send(&said).unwrap();
            said += 1;
        }
        for _ in 0..cut / 2 {
            assert_eq!(far.message().await, found);
            found += 1;
        }
        // A cut anywhere: bytes of a message may be under way.
        one.abort();
        let _ = one.await;
        assert!(matches!(
            other.await.unwrap(),
            LinkError::Closed | LinkError::Io(_)
        ));
        assert_eq!(far.line.link(), None);
    }
    let (a, b) = duplex(64);
    let (_one, _other) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
    while found < said {
        assert_eq!(far.message().await, found);
        found += 1;
    }
    while !near.line.is_settled() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_first_word_may_take_as_long_as_a_login() {
    let (near, mut far) = (Side::new(), Side::new());
    near.line.send(&7).unwrap();
    let silence = Duration::from_millis(500);
    let (a, b) = duplex(64);
    let one = near.over_with(
        a,
        LinkTimeouts {
            greeting: LONG_SILENCE,
            silence,
        },
    );
    tokio::time::sleep(silence * 3).await;
    assert!(!one.is_finished());
    let _other = far.over(b, LONG_SILENCE);
    assert_eq!(far.message().await, 7);
}

#[tokio::test]
async fn a_side_that_falls_silent_is_noticed_and_one_that_beats_is_not() {
    let (near, far) = (Side::new(), Side::new());
    let (a, b) = duplex(1024);
    let short = HEARTBEAT_INTERVAL * 3;
    let (one, other) = (near.over(a, short), far.over(b, short));
    tokio::time::sleep(short * 2).await;
    assert!(
        !one.is_finished() && !other.is_finished(),
        "beats keep a quiet line"
    );
    one.abort();
    other.abort();
    // A peer that greets and then says nothing.
    let (a, mut mute) = duplex(1024);
    let one = near.over(a, Duration::from_millis(50));
    mute.write_all(&greeting("1.2.3")).await.unwrap();
    assert!(matches!(one.await.unwrap(), LinkError::Silent(_)));
    // And one that takes nothing.
    let (a, _deaf) = duplex(1);
    let one = near.over(a, Duration::from_millis(50));
    assert!(matches!(one.await.unwrap(), LinkError::Silent(_)));
}

#[tokio::test]
async fn whoever_does_not_greet_or_is_of_another_version_is_not_heard() {
    let near = Side::new();
    let elder = Greeting {
        version: "9.8.7".into(),
        ..near.own.clone()
    };
    let frames = [
        Frame::Greeting(serde_json::to_vec(&elder).unwrap().into()),
        Frame::Greeting(Bytes::from_static(b"{")),
        Frame::Beat { received: 0 },
        Frame::Message {
            number: 1,
            body: Bytes::from_static(b"1"),
        },
    ];
    for (frame, expected) in frames.iter().zip(["9.8.7", "understood", "greeting", "greeting"]) {
        let (a, mut peer) = duplex(1024);
        let one = near.over(a, LONG_SILENCE);
        let mut bytes = BytesMut::new();
        frame.write(&mut bytes).unwrap();
        peer.write_all(&bytes).await.unwrap();
        let error = one.await.unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(near.line.link(), None);
}

#[tokio::test]
async fn probes_are_stamped_in_order_and_pieces_wait_for_room() {
    let (mut near, mut far) = (Side::new(), Side::new());
    let (a, b) = duplex(1024);
    let (_one, other) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
    far.line.send(&7).unwrap();
    assert_eq!(near.message().await, 7, "the link is up");
    near.line.send_probe();
    let Some(LineEvent::Answered(stamps)) = near.heard.recv().await else {
        panic!("no answer");
    };
    assert!(
        stamps.sent <= stamps.heard && stamps.heard <= stamps.answered && stamps.answered <= stamps.received
    );
    let (line, number) = (near.line.clone(), near.line.link().unwrap());
    let count = 50_u64;
    let sender = tokio::task::spawn_blocking(move || {
        (0..count).all(|at| line.send_piece(number, 3, at, Bytes::from(vec![at as u8; 1000])))
    });
    for at in 0..count {
        match far.heard.recv().await {
            Some(LineEvent::Piece {
                ticket: 3,
                offset,
                bytes,
            }) => assert_eq!((offset, bytes[0]), (at, at as u8)),
            other => panic!("{other:?}"),
        }
    }
    assert!(sender.await.unwrap());
    // A sender that waits for room is told when the link ends.
    other.abort();
    let _ = other.await;
    let line = near.line.clone();
    let gone = tokio::task::spawn_blocking(move || {
        (0..1000).all(|at| line.send_piece(number, 3, at, Bytes::from_static(&[0; 1000])))
    });
    assert!(!gone.await.unwrap());
}

#[tokio::test]
async fn closing_says_what_was_said_before_and_lets_no_link_begin() {
    let (near, mut far) = (Side::new(), Side::new());
    let (a, b) = duplex(1024);
    let (one, _other) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
    near.line.send(&1).unwrap();
    assert_eq!(far.message().await, 1);
    near.line.send(&2).unwrap();
    near.line.close();
    assert_eq!(far.message().await, 2);
    assert!(matches!(one.await.unwrap(), LinkError::Closed));
    assert!(matches!(near.line.send(&3), Err(LinkError::Closed)));
    let (a, b) = duplex(1024);
    let _other = far.over(b, LONG_SILENCE);
    assert!(matches!(
        near.over(a, LONG_SILENCE).await.unwrap(),
        LinkError::Closed
    ));
}

/// The first word of a side of this version, as it stands on the wire.
fn greeting(version: &str) -> BytesMut {
    let mut bytes = BytesMut::new();
    let body = serde_json::to_vec(&Greeting::new(version)).unwrap();
    Frame::Greeting(body.into()).write(&mut bytes).unwrap();
    bytes
}

/// One that takes its time.
struct SlowHandler(Handler);

impl LineHandler for SlowHandler {
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError> {
        self.0.handle_greeting(theirs)
    }

    async fn handle_event(&mut self, heard: LineEvent) -> Result<(), LinkError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.0.handle_event(heard).await
    }
}

#[tokio::test]
async fn what_was_said_before_hanging_up_is_heard() {
    let mut near = Side::new();
    let (a, mut gone) = duplex(4096);
    gone.write_all(&greeting("1.2.3")).await.unwrap();
    let mut said = BytesMut::new();
    for number in 1..=3_u64 {
        let body = serde_json::to_vec(&number).unwrap().into();
        Frame::Message { number, body }.write(&mut said).unwrap();
    }
    gone.write_all(&said).await.unwrap();
    let (line, own, mut handler) = (
        near.line.clone(),
        near.own.clone(),
        SlowHandler(Handler(near.handler.clone())),
    );
    let one = tokio::spawn(async move {
        let (reader, writer) = split(a);
        line.converse(
            reader,
            writer,
            &own,
            &mut handler,
            LinkTimeouts::without_login(LONG_SILENCE),
        )
        .await
    });
    gone.read_exact(&mut [0; 16]).await.unwrap();
    drop(gone);
    near.line.send(&0).unwrap(); // cannot be written
    for number in 1..=3 {
        assert_eq!(near.message().await, number);
    }
    let why = timeout(LONG_SILENCE / 2, one).await.unwrap().unwrap();
    assert!(matches!(why, LinkError::Closed | LinkError::Io(_)), "{why}");
}

#[tokio::test]
async fn another_version_that_hangs_up_before_it_hears_us_is_told_as_such() {
    let near = Side::new();
    let (a, mut gone) = duplex(4096);
    gone.write_all(&greeting("9.8.7")).await.unwrap();
    drop(gone);
    let why = near.over(a, LONG_SILENCE).await.unwrap();
    assert!(matches!(why, LinkError::Version(_)), "{why}");
}
