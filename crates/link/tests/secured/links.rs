//! Transfer of data over a link, and the ways in which a link ends.

use std::time::Duration;

use plimsoll_link::listen::Bounds;
use plimsoll_link::transport::{Link, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::relay::Relay;
use crate::{BOTH, TIMEOUT, dialer, link, open, talk};

/// Bytes that differ by position, so that missing and exchanged bytes are detected.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

async fn to_end(link: &mut Link) -> std::io::Result<Vec<u8>> {
    let mut heard = Vec::new();
    timeout(TIMEOUT, link.reader.read_to_end(&mut heard))
        .await
        .unwrap()?;
    Ok(heard)
}

#[tokio::test]
async fn both_transports_transfer_bytes_in_both_directions() {
    let (mut listener, keys) = open(Bounds::default());
    for via in BOTH {
        let dialer = dialer(&keys, listener.address(), via);
        let (mut near, mut far) = link(&mut listener, &dialer).await;
        assert_eq!((near.via, far.via), (via, via));
        assert_eq!(far.peer, listener.address());
        talk(&mut near, &mut far).await;
    }
    assert_eq!(listener.counters().accepted, 2);
    assert_eq!(listener.refusals(), []);
}

#[tokio::test]
async fn large_transfers_in_both_directions_at_once_are_complete() {
    let (mut listener, keys) = open(Bounds::default());
    let bytes = pattern(24 << 20);
    for via in BOTH {
        let dialer = dialer(&keys, listener.address(), via);
        let (mut near, mut far) = link(&mut listener, &dialer).await;
        let send = async |writer: &mut (dyn tokio::io::AsyncWrite + Send + Unpin)| {
            writer.write_all(&bytes).await.unwrap();
            timeout(TIMEOUT, writer.shutdown()).await.unwrap().unwrap();
        };
        let receive = async |reader: &mut (dyn tokio::io::AsyncRead + Send + Unpin)| {
            let mut heard = Vec::new();
            timeout(TIMEOUT, reader.read_to_end(&mut heard))
                .await
                .unwrap()
                .unwrap();
            assert!(
                heard == bytes,
                "{via}: {} bytes received, or other ones",
                heard.len()
            );
        };
        tokio::join!(
            send(&mut *near.writer),
            send(&mut *far.writer),
            receive(&mut *near.reader),
            receive(&mut *far.reader)
        );
    }
}

#[tokio::test]
async fn a_side_receives_after_it_has_shut_down_its_writer() {
    let (mut listener, keys) = open(Bounds::default());
    for via in BOTH {
        let dialer = dialer(&keys, listener.address(), via);
        let (mut near, mut far) = link(&mut listener, &dialer).await;
        far.writer.write_all(b"last words").await.unwrap();
        far.writer.shutdown().await.unwrap();
        assert_eq!(to_end(&mut near).await.unwrap(), b"last words");
        near.writer.write_all(b"understood").await.unwrap();
        near.writer.shutdown().await.unwrap();
        assert_eq!(to_end(&mut far).await.unwrap(), b"understood", "{via}");
    }
}

#[tokio::test]
async fn bytes_before_a_shutdown_arrive_after_the_sender_has_ended() {
    let (mut listener, keys) = open(Bounds::default());
    let bytes = pattern(200_000);
    for via in BOTH {
        let dialer = dialer(&keys, listener.address(), via);
        let (mut near, mut far) = link(&mut listener, &dialer).await;
        far.writer.write_all(&bytes).await.unwrap();
        timeout(TIMEOUT, far.writer.shutdown()).await.unwrap().unwrap();
        drop(far);
        dialer.close(TIMEOUT).await;
        assert!(to_end(&mut near).await.unwrap() == bytes, "{via}");
    }
}

#[tokio::test]
async fn an_end_without_shutdown_is_an_error() {
    let (mut listener, keys) = open(Bounds::default());
    for via in BOTH {
        let dialer = dialer(&keys, listener.address(), via);
        let (mut near, mut far) = link(&mut listener, &dialer).await;
        talk(&mut near, &mut far).await;
        far.writer.write_all(b"half a fra").await.unwrap();
        far.writer.flush().await.unwrap();
        drop(far);
        let end = to_end(&mut near).await;
        assert!(end.is_err(), "{via}: {end:?} looks like an orderly end");
    }

    // Over QUIC also if only the writer is dropped, as by a task that failed. (Over TCP the peer
    // notices it when the reader is dropped as well.)
    let dialer = dialer(&keys, listener.address(), Transport::Quic);
    let (mut near, far) = link(&mut listener, &dialer).await;
    drop(far.writer);
    let end = to_end(&mut near).await;
    assert!(end.is_err(), "{end:?} looks like an orderly end");
    drop(far.reader);
}

#[tokio::test]
async fn a_reader_that_does_not_read_stops_its_writer() {
    let (mut listener, keys) = open(Bounds {
        window: 64 << 10,
        ..Bounds::default()
    });
    let dialer = dialer(&keys, listener.address(), Transport::Quic);
    let (mut near, mut far) = link(&mut listener, &dialer).await;
    let bytes = pattern(20 << 20);
    {
        // More bytes than both ends may buffer are never written, so a longer wait would have the
        // same result.
        let written = timeout(Duration::from_millis(300), far.writer.write_all(&bytes)).await;
        assert!(written.is_err(), "20 MiB were buffered");
    }
    drop(far);
    assert!(to_end(&mut near).await.is_err());
}

#[tokio::test]
async fn loss_delay_and_an_interruption_lose_no_bytes() {
    let (mut listener, keys) = open(Bounds::default());
    let relay = Relay::start(listener.address(), Duration::from_millis(40), 0.05).await;
    let dialer = dialer(&keys, relay.address, Transport::Quic);
    let (mut near, mut far) = link(&mut listener, &dialer).await;
    let bytes = pattern(300_000);
    let send = async {
        for part in bytes.chunks(60_000) {
            far.writer.write_all(part).await.unwrap();
        }
        timeout(TIMEOUT, far.writer.shutdown()).await.unwrap().unwrap();
    };
    let cut = async {
        sleep(Duration::from_millis(200)).await;
        relay.cut(true);
        sleep(Duration::from_secs(1)).await;
        relay.cut(false);
    };
    let (heard, (), ()) = tokio::join!(to_end(&mut near), send, cut);
    assert!(heard.unwrap() == bytes);
}

#[tokio::test]
async fn a_dropped_listener_keeps_its_links_and_accepts_no_more() {
    for via in BOTH {
        let (mut listener, keys) = open(Bounds::default());
        let address = listener.address();
        let dialer = dialer(&keys, address, via);
        let (mut near, mut far) = link(&mut listener, &dialer).await;
        drop(listener);
        talk(&mut near, &mut far).await;
        assert!(dialer.dial(Duration::from_millis(500)).await.is_err());
        talk(&mut near, &mut far).await;
    }
}
