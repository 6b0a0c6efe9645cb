//! Inputs of the deciding thread. Other threads only send them.

use std::sync::Arc;

use bytes::BytesMut;
use plimsoll_link::transport::Link;
use plimsoll_link::{Greeting, LinkError, ToController};
use plimsoll_model::Command;

/// Everything that the deciding thread hears.
#[derive(Debug)]
pub(crate) enum Input {
    /// From the lab.
    Command(Command),
    /// A line that is no command.
    InvalidCommand(String),
    /// The lab closed its end, or died.
    LabEnded,
    /// Somebody asks us to end.
    Signal,
    /// From the agent of this name and generation.
    Agent {
        /// Its name.
        name: Arc<str>,
        /// Which of those that had the name.
        generation: u64,
        /// What it says, or what became of it.
        heard: AgentEvent,
    },
    /// An agent has dialled in.
    Arrived(Box<Arrival>),
    /// Somebody who has no key has knocked.
    Stranger(String),
    /// A file of an agent is whole, or cannot be stored.
    Stored {
        /// Of the request.
        ticket: u32,
        /// Why not.
        outcome: Result<(), String>,
    },
}

/// What the deciding thread hears of an agent.
#[derive(Debug)]
pub(crate) enum AgentEvent {
    /// A link is up: the first one, or one more.
    Up {
        /// It is not the first.
        again: bool,
    },
    /// A link has broken; another one is being made.
    Cut(LinkError),
    /// A word of the agent.
    Message(ToController),
    /// It has reported its host or its clock, which the session has stored.
    Learnt,
    /// The agent has ended, or cannot be reached any more.
    Lost(LinkError),
}

/// An agent at the door: it has the key, and has said its name.
pub(crate) struct Arrival {
    pub(crate) name: String,
    pub(crate) greeting: Greeting,
    pub(crate) link: Link,
    /// What was read of the link already, greeting included.
    pub(crate) read: BytesMut,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arrival({} {:?})", self.name, self.link)
    }
}
