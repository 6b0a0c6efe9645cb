//! The limits of the agent's process. Each run has its own: the process enters a control group when
//! a run with limits is prepared, and leaves it when a run with others is.

use plimsoll_limits::{LimitError, Limits, Membership};

/// The present limits.
#[derive(Default)]
pub(crate) struct Limited {
    limits: Limits,
    membership: Option<Membership>,
}

impl Limited {
    /// Gives this process, with all its threads, the limits of a run.
    ///
    /// # Errors
    /// [`LimitError`]: the process then has no limits.
    pub(crate) fn set(&mut self, limits: Limits) -> Result<(), LimitError> {
        if limits == self.limits {
            return Ok(());
        }
        *self = Self::default();
        if !limits.is_empty() {
            plimsoll_limits::sweep();
            self.membership = Some(Membership::new(&limits)?);
        }
        self.limits = limits;
        Ok(())
    }
}
