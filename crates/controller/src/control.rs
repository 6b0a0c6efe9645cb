//! The dialogue with the lab: commands in, events out, one piece of work at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use plimsoll_link::Greeting;
use plimsoll_model::{Command, Event, format};

use crate::agents::peer::{AgentCommand, PeerContext};
use crate::events::Events;
use crate::input::{AgentEvent, Input};
use crate::run::assemble::check_names;
use crate::run::gather;
use crate::session::{Incident, Session};
use crate::{check, run};

/// Maximum length of a command line, bytes.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// Why the controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The system refuses a thread or a runtime.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Executes the commands on `input` and writes events to `output`, until Quit, the end of `input`,
/// or a message on `signals`. A run in progress is then stopped in the usual way.
///
/// # Errors
/// [`ControlError`] at the start; later failures are events.
pub fn control(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    signals: Receiver<i32>,
    how: AgentCommand,
    version: &str,
) -> Result<(), ControlError> {
    plimsoll_agent::adopt_orphans();
    let (sender, inbox) = mpsc::channel();
    let events = Events::start(output, sender.clone())?;
    read_commands(input, sender.clone())?;
    forward_signals(signals, sender.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("links")
        .enable_all()
        .build()?;
    let context = PeerContext {
        inbox: sender,
        store: Arc::default(),
        own: Greeting::new(version),
        version: version.to_owned(),
        silence: how.silence,
    };
    let mut session = Session::new(inbox, events, context, how, runtime);
    session.events.send(&Event::Hello {
        format: format::ENGINE.into(),
        version: version.into(),
    });
    while !session.is_ending() {
        match session.next(None) {
            Incident::Command(command) => {
                session.begin_work();
                obey(&mut session, command);
                session.end_work();
            }
            // Between runs the loss of an agent loses no data: the next run starts another one.
            Incident::Agent {
                name,
                event: AgentEvent::Lost(error),
                ..
            } => {
                session.drop_lost(&name, &error);
            }
            _ => {}
        }
    }
    session.end();
    Ok(())
}

fn obey(session: &mut Session, command: Command) {
    let named = match &command {
        Command::Run { agents, .. }
        | Command::Check { agents, .. }
        | Command::MeasurePaths { agents, .. }
        | Command::Collect { agents, .. } => check_names(agents),
        _ => Ok(()),
    };
    if let Err(error) = named {
        return session.events.send(&refused(&error));
    }
    let event = match command {
        Command::Run { spec, agents, rules } => match run::carry_out(session, *spec, &agents, rules) {
            Ok(outcome) => Event::Finished(outcome),
            Err(error) => refused(&error),
        },
        Command::Check { agents, baseline } => {
            check::check(session, &agents, baseline.as_ref());
            Event::Checked
        }
        Command::MeasurePaths { agents, paths } => {
            check::measure_paths(session, &agents, &paths);
            Event::PathsMeasured
        }
        Command::Collect { directory, agents } => {
            gather::collect(session, &directory, &agents).unwrap_or_else(|error| refused(&error))
        }
        Command::Listen(spec) => session.listen(&spec).unwrap_or_else(|error| refused(&error)),
        Command::Stop { .. } | Command::Quit => return, // the session has handled them
    };
    session.events.send(&event);
}

fn refused(error: &impl ToString) -> Event {
    Event::Refused {
        error: error.to_string(),
    }
}

/// Starts the thread that reads the commands, one per line.
fn read_commands(input: impl Read + Send + 'static, sender: Sender<Input>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("commands".into())
        .spawn(move || {
            let mut input = BufReader::new(input);
            loop {
                let message = read_command(&mut input, MAX_LINE);
                let last = matches!(message, Some(Input::LabEnded));
                if message.is_some_and(|message| sender.send(message).is_err()) || last {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Reads one line of at most `max_bytes`. None for an empty line. The rest of a longer line is
/// skipped: it would be read as a command.
fn read_command(input: &mut impl BufRead, max_bytes: u64) -> Option<Input> {
    let mut line = Vec::new();
    match input.by_ref().take(max_bytes).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => return Some(Input::LabEnded),
        Ok(_) => {}
    }
    if line.len() as u64 == max_bytes && line.last() != Some(&b'\n') {
        let text = format!("a command has more than {max_bytes} bytes");
        return Some(match input.skip_until(b'\n') {
            Ok(_) => Input::InvalidCommand(text),
            Err(_) => Input::LabEnded,
        });
    }
    // The line is not quoted: it may contain secrets.
    match serde_json::from_slice(&line) {
        Ok(command) => Some(Input::Command(command)),
        Err(_) if line.trim_ascii().is_empty() => None,
        Err(error) => Some(Input::InvalidCommand(format!(
            "not a command: {}",
            without_values(&error)
        ))),
    }
}

/// The text of an error without the values of the command.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let shown = match error.classify() {
        // Such a text contains fields and types, and the value in quotation marks.
        serde_json::error::Category::Data
            if text.starts_with("invalid value") || text.starts_with("invalid type") =>
        {
            text.split_once(", expected").map_or_else(
                || "invalid value".to_owned(),
                |(_, expected)| format!("expected{expected}"),
            )
        }
        _ => text,
    };
    shown.chars().take(400).collect()
}

fn forward_signals(signals: Receiver<i32>, sender: Sender<Input>) -> std::io::Result<()> {
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
                    // After the third signal the process does not wait for files. `convert` can
                    // convert the segments later.
                    plimsoll_agent::end_children();
                    std::process::exit(130);
                }
            }
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_line_that_is_too_long_is_not_read_as_a_command() {
        let quit = r#"{"type":"quit"}"#;
        let text = format!("{}{quit}\n\n{quit}\n", " ".repeat(20));
        let mut input = text.as_bytes();
        let long = read_command(&mut input, 20);
        assert!(matches!(long, Some(Input::InvalidCommand(text)) if text.contains("20 bytes")));
        assert!(read_command(&mut input, 20).is_none());
        assert!(matches!(
            read_command(&mut input, 20),
            Some(Input::Command(Command::Quit))
        ));
        assert!(matches!(read_command(&mut input, 20), Some(Input::LabEnded)));
    }

    #[test]
    fn the_error_of_an_invalid_command_contains_no_value() {
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
}
