//! The queue of events to the lab.

use std::io::Write;
use std::sync::mpsc::{self, Sender, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use plimsoll_model::Event;

use crate::input::Input;

/// Maximum number of events that wait for the lab.
const MAX_EVENTS: usize = 4096;
/// How long an event other than a second waits for the lab. After that the lab counts as ended.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The queue of events. A separate thread writes them, so that a lab that does not read does not
/// stop a run.
pub(crate) struct Events {
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Events {
    pub(crate) fn start(
        mut output: impl Write + Send + 'static,
        sender: Sender<Input>,
    ) -> std::io::Result<Self> {
        let (queue, lines) = mpsc::sync_channel::<Vec<u8>>(MAX_EVENTS);
        let thread = std::thread::Builder::new().name("events".into()).spawn(move || {
            for line in lines {
                if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                    let _ = sender.send(Input::LabEnded);
                    return;
                }
            }
        })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Sends an event to the lab. If the queue is full, a second is dropped, and any other event
    /// waits for some time.
    pub(crate) fn send(&mut self, event: &Event) {
        let Some(queue) = &self.queue else { return };
        let Ok(mut line) = serde_json::to_vec(event) else {
            return;
        };
        line.push(b'\n');
        let since = Instant::now();
        let mut pending = line;
        loop {
            pending = match queue.try_send(pending) {
                Ok(()) => return,
                Err(TrySendError::Full(_)) if matches!(event, Event::Second { .. }) => return,
                Err(TrySendError::Full(line)) => line,
                Err(TrySendError::Disconnected(_)) => break,
            };
            if since.elapsed() > TIMEOUT {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.queue = None;
    }

    /// Waits for some time until all events are written.
    pub(crate) fn finish(&mut self) {
        self.queue = None;
        let since = Instant::now();
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && since.elapsed() < TIMEOUT {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;

    #[test]
    fn seconds_do_not_wait_for_a_lab_that_does_not_read() {
        struct Stuck(Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                let _ = self.0.recv();
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (free, stuck) = mpsc::channel::<()>();
        let (sender, inbox) = mpsc::channel();
        let mut events = Events::start(Stuck(stuck), sender).unwrap();
        let second = Event::Second {
            second: 0,
            counters: plimsoll_model::Counters::default(),
            active: 0,
            in_progress: 0,
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
        };
        let since = Instant::now();
        (0..MAX_EVENTS * 2).for_each(|_| events.send(&second));
        assert!(since.elapsed() < TIMEOUT);
        drop(free);
        assert!(matches!(inbox.recv(), Ok(Input::LabEnded)));
        events.finish();
    }
}
