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

use plimsoll_link::{Greeting, LinkError, Reader, ToAgent, ToController, VersionError, Writer};

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
    /// The controller is of another version.
    #[error("refused: {0}")]
    Version(#[from] VersionError),
    /// The controller does not say who it is.
    #[error("refused: the controller began with another word than its greeting")]
    Stranger,
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
    writer.send(&ToController::Hello(Greeting::new(version)))?;
    beat(writer.clone()).map_err(|error| AgentError::System("start a thread", error))?;
    close_on(ended, writer.clone()).map_err(|error| AgentError::System("start a thread", error))?;
    if let Err(error) = be_greeted(&mut reader, version) {
        writer.close();
        return match error {
            AgentError::Link(LinkError::Closed) => Ok(()),
            error => Err(error),
        };
    }
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
            ToAgent::Hello(_) => {}
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

/// Nothing else of what the controller says is taken in before it is known to be of our version.
fn be_greeted(reader: &mut Reader, version: &str) -> Result<(), AgentError> {
    match reader.receive::<ToAgent>()? {
        ToAgent::Hello(theirs) => Ok(theirs.check("the controller", "agent", version)?),
        _ => Err(AgentError::Stranger),
    }
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

#[cfg(test)]
mod tests {
    use plimsoll_link::pair;

    use super::*;

    /// An agent of version 1.2.3 whose controller begins with `first`: what the agent says of itself, and how it ends.
    fn meet(first: &ToAgent) -> (Greeting, String) {
        let (near, far) = pair().unwrap();
        let agent = std::thread::spawn(move || run_agent(far, "1.2.3", no_signals()));
        let (mut reader, writer) = Reader::split(near, Some(Duration::from_secs(60))).unwrap();
        writer.send(first).unwrap();
        let ToController::Hello(greeting) = reader.receive().unwrap() else {
            panic!("no greeting");
        };
        // The end of the link, not a silence, is what the other side hears.
        let end = loop {
            match reader.receive::<ToController>() {
                Ok(ToController::Heartbeat) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(end, LinkError::Closed), "{end}");
        (greeting, agent.join().unwrap().unwrap_err().to_string())
    }

    #[test]
    fn a_controller_of_another_version_is_refused() {
        let other = Greeting {
            link: 77,
            version: "9.8.7".into(),
            pid: 1,
        };
        let (greeting, error) = meet(&ToAgent::Hello(other));
        assert_eq!(greeting, Greeting::new("1.2.3"));
        let own = format!("version 1.2.3 (link {})", greeting.link);
        assert!(
            error.contains("the controller is version 9.8.7 (link 77)") && error.contains(&own),
            "{error}"
        );
    }

    #[test]
    fn a_controller_that_does_not_greet_is_refused() {
        let (_, error) = meet(&ToAgent::Go { t0_raw_ns: 1 });
        assert!(error.contains("greeting"), "{error}");
    }
}
