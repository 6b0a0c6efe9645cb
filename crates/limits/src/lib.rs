//! Limits of the memory, the processor time and the disk bandwidth of a program and its
//! descendants, by a control group of its own.
//!
//! Control groups exist in two versions. Each controller belongs to a hierarchy of version 1, or to
//! the single hierarchy of version 2. A group is created below the group of this process, so that
//! limits of the surroundings (a container, a batch job) still apply. In version 2, a group with
//! processes cannot have limited children: there, it is created below the nearest group above that
//! can ([`Group::create`]).
//!
//! Whether a limit holds is found out, not assumed ([`self_test`]).

mod error;
mod group;
mod hierarchy;
mod membership;
mod readings;
mod self_test;
mod sweep;

pub use error::LimitError;
pub use group::{Group, enter};
pub use membership::Membership;
pub use plimsoll_model::Limits;
pub use readings::{DiskBytes, GroupReader, GroupReading};
pub use self_test::{Proof, load, self_test};
pub use sweep::sweep;

use serde::{Deserialize, Serialize};

/// What is limited.
pub fn resources(limits: &Limits) -> Vec<Resource> {
    [
        (Resource::Memory, limits.memory.is_some()),
        (Resource::Cpu, limits.cpu.is_some()),
        (Resource::DiskRead, limits.disk_read.is_some()),
        (Resource::DiskWrite, limits.disk_write.is_some()),
    ]
    .into_iter()
    .filter_map(|(resource, is_limited)| is_limited.then_some(resource))
    .collect()
}

/// What a limit restricts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Memory.
    Memory,
    /// Processor time.
    Cpu,
    /// Reads from disks.
    DiskRead,
    /// Writes to disks.
    DiskWrite,
}

impl Resource {
    /// The resource with this name, as in an experiment file.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "memory" => Some(Self::Memory),
            "cpu" => Some(Self::Cpu),
            "disk_read" => Some(Self::DiskRead),
            "disk_write" => Some(Self::DiskWrite),
            _ => None,
        }
    }

    /// Its name, as in an experiment file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::DiskRead => "disk_read",
            Self::DiskWrite => "disk_write",
        }
    }
}
