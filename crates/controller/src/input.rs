//! Inputs of the deciding thread. Other threads only send them.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use plimsoll_link::transport::Link;
use plimsoll_link::{Greeting, LinkError, ToController};
use plimsoll_model::Command;

/// An input of the deciding thread.
#[derive(Debug)]
pub(crate) enum Input {
    /// A command of the lab.
    Command(Command),
    /// A line of the lab that is not a command. Contains the error.
    InvalidCommand(String),
    /// The lab closed its end, or ended.
    LabEnded,
    /// A signal asks this process to end.
    Signal,
    /// An event of an agent.
    Agent {
        /// Name of the agent.
        name: Arc<str>,
        /// Generation, which distinguishes successive agents of the same name.
        generation: u64,
        /// The event.
        event: AgentEvent,
    },
    /// An agent has dialled in.
    Arrived(Box<Arrival>),
    /// A client without the key was refused. Contains the description.
    Stranger(String),
    /// A file of an agent is complete, or cannot be stored.
    Stored {
        /// Ticket of the request.
        ticket: u32,
        /// The error, if it cannot be stored.
        outcome: io::Result<()>,
    },
}

/// An event of an agent.
#[derive(Debug)]
pub(crate) enum AgentEvent {
    /// A link was made.
    Up {
        /// Whether it is not the first one.
        again: bool,
    },
    /// A link broke; another one is being made.
    Cut(LinkError),
    /// A message of the agent.
    Message(ToController),
    /// The agent has reported its host or its clock, which the session has stored.
    Learnt,
    /// The agent has ended, or can no longer be reached.
    Lost(LinkError),
}

/// An agent that has dialled in: it has the key and has sent its name.
pub(crate) struct Arrival {
    pub(crate) name: String,
    pub(crate) greeting: Greeting,
    pub(crate) link: Link,
    /// The bytes that were read from the link, including the greeting.
    pub(crate) read: BytesMut,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arrival({} {:?})", self.name, self.link)
    }
}
