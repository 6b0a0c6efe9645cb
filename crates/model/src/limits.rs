//! Limits of a program, in the messages between lab, controller and agent.

use serde::{Deserialize, Serialize};

/// Limits of a program with all its descendants. None: not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory and swap space together, bytes.
    pub memory: Option<u64>,
    /// Processor time, in cores: 0.5 is half of the time of one core.
    pub cpu: Option<f64>,
    /// Bytes per second that are read from each disk.
    pub disk_read: Option<u64>,
    /// Bytes per second that are written to each disk.
    pub disk_write: Option<u64>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether reads from disks or writes to them are limited.
    pub fn has_disks(&self) -> bool {
        self.disk_read.is_some() || self.disk_write.is_some()
    }
}
