//! Two sides over streams that break, are silent, or carry other frames.

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

    async fn handle_event(&mut self, event: LineEvent) -> Result<(), LinkError> {
        self.0.send(event).map_err(|_| LinkError::Closed)
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

    /// Runs the dialogue over `stream` in the background.
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
async fn messages_arrive_once_and_in_order_over_links_that_break() {
    let (near, mut far) = (Side::new(), Side::new());
    let mut sent = 0;
    let mut received = 0;
    for messages in [3_u32, 0, 17, 40, 1] {
        // Sent without a link.
        near.line.send(&sent).unwrap();
        sent += 1;
        let (a, b) = duplex(64);
        let (near_task, far_task) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
        for _ in 0..messages {
            near.line.send(&sent).unwrap();
            sent += 1;
        }
        for _ in 0..messages / 2 {
            assert_eq!(far.message().await, received);
            received += 1;
        }
        // The link breaks anywhere: a part of a message may have been written.
        near_task.abort();
        let _ = near_task.await;
        assert!(matches!(
            far_task.await.unwrap(),
            LinkError::Closed | LinkError::Io(_)
        ));
        assert_eq!(far.line.link(), None);
    }
    let (a, b) = duplex(64);
    let (_near_task, _far_task) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
    while received < sent {
        assert_eq!(far.message().await, received);
        received += 1;
    }
    while !near.line.is_settled() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_greeting_has_a_longer_timeout_than_later_frames() {
    let (near, mut far) = (Side::new(), Side::new());
    near.line.send(&7).unwrap();
    let silence = Duration::from_millis(500);
    let (a, b) = duplex(64);
    let near_task = near.over_with(
        a,
        LinkTimeouts {
            greeting: LONG_SILENCE,
            silence,
        },
    );
    tokio::time::sleep(silence * 3).await;
    assert!(!near_task.is_finished());
    let _far_task = far.over(b, LONG_SILENCE);
    assert_eq!(far.message().await, 7);
}

#[tokio::test]
async fn a_silent_side_ends_the_link_and_heartbeats_keep_it() {
    let (near, far) = (Side::new(), Side::new());
    let (a, b) = duplex(1024);
    let short = HEARTBEAT_INTERVAL * 3;
    let (near_task, far_task) = (near.over(a, short), far.over(b, short));
    tokio::time::sleep(short * 2).await;
    assert!(
        !near_task.is_finished() && !far_task.is_finished(),
        "heartbeats keep an idle link"
    );
    near_task.abort();
    far_task.abort();
    // A peer that sends its greeting and then nothing.
    let (a, mut mute) = duplex(1024);
    let near_task = near.over(a, Duration::from_millis(50));
    mute.write_all(&greeting("1.2.3")).await.unwrap();
    assert!(matches!(near_task.await.unwrap(), LinkError::Silent(_)));
    // A peer that reads nothing.
    let (a, _deaf) = duplex(1);
    let near_task = near.over(a, Duration::from_millis(50));
    assert!(matches!(near_task.await.unwrap(), LinkError::Silent(_)));
}

#[tokio::test]
async fn a_peer_without_a_greeting_or_of_another_version_is_rejected() {
    let near = Side::new();
    let other_version = Greeting {
        version: "9.8.7".into(),
        ..near.own.clone()
    };
    let frames = [
        Frame::Greeting(serde_json::to_vec(&other_version).unwrap().into()),
        Frame::Greeting(Bytes::from_static(b"{")),
        Frame::Beat { received: 0 },
        Frame::Message {
            number: 1,
            body: Bytes::from_static(b"1"),
        },
    ];
    let texts = ["9.8.7", "invalid message", "greeting", "greeting"];
    for (frame, expected) in frames.iter().zip(texts) {
        let (a, mut peer) = duplex(1024);
        let near_task = near.over(a, LONG_SILENCE);
        let mut bytes = BytesMut::new();
        frame.write(&mut bytes).unwrap();
        peer.write_all(&bytes).await.unwrap();
        let error = near_task.await.unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(near.line.link(), None);
}

#[tokio::test]
async fn probes_have_ordered_stamps_and_pieces_wait_for_the_queue() {
    let (mut near, mut far) = (Side::new(), Side::new());
    let (a, b) = duplex(1024);
    let (_near_task, far_task) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
    far.line.send(&7).unwrap();
    assert_eq!(near.message().await, 7, "no link");
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
        (0..count).all(|index| line.send_piece(number, 3, index, Bytes::from(vec![index as u8; 1000])))
    });
    for index in 0..count {
        match far.heard.recv().await {
            Some(LineEvent::Piece {
                ticket: 3,
                offset,
                bytes,
            }) => assert_eq!((offset, bytes[0]), (index, index as u8)),
            other => panic!("{other:?}"),
        }
    }
    assert!(sender.await.unwrap());
    // A sender that waits for the queue returns when the link ends.
    far_task.abort();
    let _ = far_task.await;
    let line = near.line.clone();
    let all_sent = tokio::task::spawn_blocking(move || {
        (0..1000).all(|index| line.send_piece(number, 3, index, Bytes::from_static(&[0; 1000])))
    });
    assert!(!all_sent.await.unwrap());
}

#[tokio::test]
async fn a_closed_line_sends_its_messages_and_rejects_new_links() {
    let (near, mut far) = (Side::new(), Side::new());
    let (a, b) = duplex(1024);
    let (near_task, _far_task) = (near.over(a, LONG_SILENCE), far.over(b, LONG_SILENCE));
    near.line.send(&1).unwrap();
    assert_eq!(far.message().await, 1);
    near.line.send(&2).unwrap();
    near.line.close();
    assert_eq!(far.message().await, 2);
    assert!(matches!(near_task.await.unwrap(), LinkError::Closed));
    assert!(matches!(near.line.send(&3), Err(LinkError::Closed)));
    let (a, b) = duplex(1024);
    let _far_task = far.over(b, LONG_SILENCE);
    assert!(matches!(
        near.over(a, LONG_SILENCE).await.unwrap(),
        LinkError::Closed
    ));
}

/// The frame of a greeting of engine `version`.
fn greeting(version: &str) -> BytesMut {
    let mut bytes = BytesMut::new();
    let body = serde_json::to_vec(&Greeting::new(version)).unwrap();
    Frame::Greeting(body.into()).write(&mut bytes).unwrap();
    bytes
}

/// A handler that takes 20 ms for each event.
struct SlowHandler(Handler);

impl LineHandler for SlowHandler {
    fn handle_greeting(&mut self, theirs: &Greeting) -> Result<(), LinkError> {
        self.0.handle_greeting(theirs)
    }

    async fn handle_event(&mut self, event: LineEvent) -> Result<(), LinkError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.0.handle_event(event).await
    }
}

#[tokio::test]
async fn messages_sent_before_the_stream_was_closed_are_received() {
    let mut near = Side::new();
    let (a, mut peer) = duplex(4096);
    peer.write_all(&greeting("1.2.3")).await.unwrap();
    let mut frames = BytesMut::new();
    for number in 1..=3_u64 {
        let body = serde_json::to_vec(&number).unwrap().into();
        Frame::Message { number, body }.write(&mut frames).unwrap();
    }
    peer.write_all(&frames).await.unwrap();
    let (line, own, mut handler) = (
        near.line.clone(),
        near.own.clone(),
        SlowHandler(Handler(near.handler.clone())),
    );
    let near_task = tokio::spawn(async move {
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
    peer.read_exact(&mut [0; 16]).await.unwrap();
    drop(peer);
    near.line.send(&0).unwrap(); // cannot be written
    for number in 1..=3 {
        assert_eq!(near.message().await, number);
    }
    let why = timeout(LONG_SILENCE / 2, near_task).await.unwrap().unwrap();
    assert!(matches!(why, LinkError::Closed | LinkError::Io(_)), "{why}");
}

#[tokio::test]
async fn a_peer_that_closes_after_its_greeting_is_reported_by_its_version() {
    let near = Side::new();
    let (a, mut peer) = duplex(4096);
    peer.write_all(&greeting("9.8.7")).await.unwrap();
    drop(peer);
    let why = near.over(a, LONG_SILENCE).await.unwrap();
    assert!(matches!(why, LinkError::Version(_)), "{why}");
}
