//! The conversation with the lab: commands in, events out, one run at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use plimsoll_link::{LinkError, ToController};
use plimsoll_model::{Command, Event, format};

use crate::host::{AgentCommand, AgentHost, adopt_orphans};
use crate::run;

/// Longest line that the lab may send.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;
/// Events that may wait for the lab to read them.
const EVENTS: usize = 4096;
/// How long an important event waits for the lab before the lab counts as gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Name of the one agent there is.
const LOCAL: &str = "local";

/// Why the controller cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No thread is to be had.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Everything that the deciding thread hears.
pub(crate) enum Input {
    /// From the lab.
    Command(Command),
    /// A line that is no command.
    Rubbish(String),
    /// The lab closed its end, or died.
    LabGone,
    /// Somebody asks us to end.
    Signal,
    /// From the agent's process of this generation.
    Agent {
        /// Which process.
        generation: u64,
        /// What it says, or how its link ended.
        message: Result<ToController, LinkError>,
    },
}

/// The deciding thread's means.
pub(crate) struct Session {
    pub(crate) inbox: Receiver<Input>,
    pub(crate) events: Events,
    pub(crate) agent: Option<AgentHost>,
    /// The conversation ends when the run that goes on has ended.
    pub(crate) ending: bool,
    sender: Sender<Input>,
    generation: u64,
    how: AgentCommand,
    pub(crate) version: String,
}

impl Session {
    /// The agent, started if there is none.
    ///
    /// # Errors
    /// A text for people.
    pub(crate) fn agent(&mut self) -> Result<&AgentHost, String> {
        if self.agent.is_none() {
            self.generation += 1;
            let agent = AgentHost::spawn(
                LOCAL,
                self.generation,
                &self.how,
                &self.version,
                self.sender.clone(),
            )
            .map_err(|error| format!("the agent could not be started: {error}"))?;
            self.agent = Some(agent);
            if let Err(error) = run::greet(self) {
                // It was told of our version, too, and ends of itself when it has said why.
                if let Some(agent) = self.agent.take() {
                    agent.end();
                }
                return Err(error);
            }
        }
        self.agent.as_ref().ok_or_else(|| "the agent is gone".to_owned())
    }

    /// Kills the agent; gives how it had ended.
    pub(crate) fn drop_agent(&mut self) -> String {
        self.agent.take().map(AgentHost::kill).unwrap_or_default()
    }
}

/// Carries out what the lab asks for on `input`, and tells on `output`, until Quit, the end of `input`, or a message on
/// `signals`. A run that goes on is then stopped cleanly first.
///
/// # Errors
/// [`ControlError`] before anything has begun; later failures are events.
pub fn control(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    signals: Receiver<()>,
    how: AgentCommand,
    version: &str,
) -> Result<(), ControlError> {
    adopt_orphans();
    let (sender, inbox) = mpsc::channel();
    let events = Events::start(output, sender.clone())?;
    listen(input, sender.clone())?;
    pass_on(signals, sender.clone())?;
    let mut session = Session {
        inbox,
        events,
        agent: None,
        ending: false,
        sender,
        generation: 0,
        how,
        version: version.to_owned(),
    };
    session.events.tell(&Event::Hello {
        format: format::ENGINE.into(),
        version: version.into(),
    });
    while !session.ending {
        match session.inbox.recv() {
            Ok(Input::Command(Command::Run { spec })) => {
                let event = match run::carry_out(&mut session, *spec) {
                    Ok(finished) => Event::Finished(finished),
                    Err(error) => Event::Refused { error },
                };
                session.events.tell(&event);
            }
            Ok(Input::Command(Command::Quit) | Input::LabGone | Input::Signal) | Err(_) => {
                session.ending = true;
            }
            Ok(Input::Rubbish(why)) => session.events.tell(&Event::Refused { error: why }),
            Ok(Input::Agent {
                generation,
                message: Err(_),
            }) => {
                // Between runs nothing is lost by it: the next run starts another one.
                if session
                    .agent
                    .as_ref()
                    .is_some_and(|agent| agent.generation == generation)
                {
                    session.drop_agent();
                }
            }
            Ok(Input::Agent { .. } | Input::Command(Command::Stop { .. })) => {}
        }
    }
    if let Some(agent) = session.agent.take() {
        agent.end();
    }
    session.events.finish();
    Ok(())
}

/// Reads commands, a line each.
fn listen(input: impl Read + Send + 'static, sender: Sender<Input>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("commands".into())
        .spawn(move || {
            let mut input = BufReader::new(input);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
                let message = match read {
                    Ok(0) | Err(_) => Input::LabGone,
                    // The text is not repeated: it may hold secrets.
                    Ok(_) => match serde_json::from_slice(&line) {
                        Ok(command) => Input::Command(command),
                        Err(_) if line.trim_ascii().is_empty() => continue,
                        Err(error) => Input::Rubbish(format!("not a command: {}", without_values(&error))),
                    },
                };
                let last = matches!(message, Input::LabGone);
                if sender.send(message).is_err() || last {
                    return;
                }
            }
        })?;
    Ok(())
}

/// What is wrong with a command, without the values in it.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = match error.classify() {
        // Such a text names fields and types, and in quotation marks the value that was found.
        serde_json::error::Category::Data
            if text.starts_with("invalid value") || text.starts_with("invalid type") =>
        {
            text.split_once(", expected").map_or_else(
                || "a wrong value".to_owned(),
                |(_, rest)| format!("expected{rest}"),
            )
        }
        _ => text,
    };
    what.chars().take(400).collect()
}

fn pass_on(signals: Receiver<()>, sender: Sender<Input>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut count = 0;
            while signals.recv().is_ok() {
                count += 1;
                if sender.send(Input::Signal).is_err() {
                    return;
                }
                if count == 3 {
                    // Whoever asks three times does not want to wait for files; `convert` finds the segments later.
                    plimsoll_agent::end_children();
                    std::process::exit(130);
                }
            }
        })?;
    Ok(())
}

/// Events on their way to the lab, written by a thread of their own: a lab that does not read must not stop a run.
pub(crate) struct Events {
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Events {
    fn start(mut output: impl Write + Send + 'static, sender: Sender<Input>) -> std::io::Result<Self> {
        let (queue, lines) = mpsc::sync_channel::<Vec<u8>>(EVENTS);
        let thread = std::thread::Builder::new().name("events".into()).spawn(move || {
            for line in lines {
                if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                    let _ = sender.send(Input::LabGone);
                    return;
                }
            }
        })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Tells the lab. Seconds are left out when it does not keep up; everything else waits for it a while.
    pub(crate) fn tell(&mut self, event: &Event) {
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
            if since.elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.queue = None;
    }

    /// Waits a while until everything is written.
    fn finish(&mut self) {
        self.queue = None;
        let since = Instant::now();
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && since.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_command_is_told_without_what_stood_in_it() {
        for line in [
            r#"{"type":"run","spec":"hunter2"}"#,
            r#"{"type":"stop","reason":["hunter2"]}"#,
            r#"{"type":"stop","reason":7}"#,
        ] {
            let error = serde_json::from_str::<Command>(line).unwrap_err();
            let text = without_values(&error);
            assert!(!text.contains("hunter2") && !text.contains('7'), "{text}");
            assert!(text.contains("expected"), "{text}");
        }
    }

    #[test]
    fn a_lab_that_does_not_read_stops_nothing() {
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
        (0..EVENTS * 2).for_each(|_| events.tell(&second));
        assert!(since.elapsed() < PATIENCE);
        drop(free);
        assert!(matches!(inbox.recv(), Ok(Input::LabGone)));
        events.finish();
    }
}
