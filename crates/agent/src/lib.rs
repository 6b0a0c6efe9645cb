//! An agent: testers, recorder and monitor of one host, behind a link to the controller.
//!
//! It serves several runs in turn, writes its segments into the spool that each run names, and ends, with everything it
//! has started, when the link closes.

mod affinity;
mod children;
mod run;

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use plimsoll_link::{LinkError, Reader, ToAgent, ToController, Writer};
use plimsoll_model::format;

use crate::affinity::Affinity;
use crate::run::Run;

pub use children::end_children;

/// How often an agent says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a run that goes on may take to end when nobody listens any more.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Why an agent ended otherwise than it was told to.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The link broke, other than by its end.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The system refuses a resource.
    #[error("cannot {0}: {1}")]
    System(&'static str, std::io::Error),
}

/// Serves runs until the controller says Quit or ends. `version` is the engine's; a message on `ended` (a signal) has
/// the same effect as the end of the link.
///
/// # Errors
/// [`AgentError`].
pub fn run_agent(stream: UnixStream, version: &str, ended: Receiver<()>) -> Result<(), AgentError> {
    // No time-out here: a controller that has nothing to say is silent, and its end closes the link.
    let (mut reader, writer) = Reader::split(stream, None)?;
    let hello = ToController::Hello {
        link: format::LINK_VERSION,
        version: version.to_owned(),
        pid: std::process::id(),
    };
    writer.send(&hello)?;
    beat(writer.clone()).map_err(|error| AgentError::System("start a thread", error))?;
    close_on(ended, writer.clone()).map_err(|error| AgentError::System("start a thread", error))?;
    let affinity = Affinity::current();
    let mut run: Option<Run> = None;
    let outcome = loop {
        let message = match reader.receive::<ToAgent>() {
            Ok(message) => message,
            Err(LinkError::Closed) => break Ok(()),
            Err(error) => break Err(error.into()),
        };
        match message {
            ToAgent::Prepare(prepare) => {
                // The former run has said Finished, or this would not have been sent.
                if let Some(former) = run.take() {
                    former.join();
                }
                let answer = match affinity
                    .bind(&prepare.spec.tester_cpus)
                    .and_then(|()| Run::prepare(*prepare))
                {
                    Ok(prepared) => {
                        run = Some(prepared);
                        ToController::Prepared
                    }
                    Err(error) => ToController::Failed { error },
                };
                let _ = writer.send(&answer);
            }
            ToAgent::Go { t0_raw_ns } => {
                if let Some(run) = &mut run {
                    run.go(t0_raw_ns, &writer);
                }
            }
            ToAgent::Stop => {
                if let Some(run) = &mut run {
                    run.stop(&writer);
                }
            }
            ToAgent::Quit => break Ok(()),
        }
    };
    writer.close();
    if let Some(run) = run {
        run.abandon(LAST_WORDS);
    }
    end_children();
    outcome
}

/// Says "still there" until nobody listens.
fn beat(writer: Writer) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("heartbeat".into())
        .spawn(move || {
            while writer.send(&ToController::Heartbeat).is_ok() {
                std::thread::sleep(HEARTBEAT);
            }
            // Nobody reads what we measure: end the wait for the controller's next word, too.
            writer.close();
        })?;
    Ok(())
}

/// Ends the link when a signal asks for the end, and the process if that does not lead to it.
fn close_on(ended: Receiver<()>, writer: Writer) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if ended.recv().is_ok() {
                writer.close();
                std::thread::sleep(LAST_WORDS * 3);
                end_children();
                std::process::exit(1);
            }
        })?;
    Ok(())
}

/// A channel whose receiver never hears anything, for callers without signals.
pub fn no_signals() -> Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    drop(sender);
    receiver
}
