//! Whether a result is that of the trace.

use nix::errno::Errno;

use crate::action::{Action, Operation, mark};

/// What a call on an open file finds whose opening has failed.
pub(crate) const NOT_OPEN: &str = "not open";

/// How one result differs from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Difference {
    Ok,
    Fewer,
    More,
    Elsewhere,
    Lost,
    Failed(i32),
}

/// What was recorded, and what was got instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Comparison {
    pub(crate) recorded: Difference,
    pub(crate) got: Difference,
}

impl Difference {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Ok => "ok".into(),
            Self::Fewer => "fewer bytes".into(),
            Self::More => "more bytes".into(),
            Self::Elsewhere => "elsewhere".into(),
            Self::Lost => NOT_OPEN.into(),
            Self::Failed(errno) => format!("{:?}", Errno::from_raw(errno)),
        }
    }
}

impl Comparison {
    /// Of a call that could not be made, as its open file is not there.
    pub(crate) fn of_lost(action: &Action) -> Self {
        let recorded = match action.recorded.said() {
            Some(Err(errno)) => Difference::Failed(errno),
            _ => Difference::Ok,
        };
        let got = Difference::Lost;
        Self { recorded, got }
    }

    /// None where both are the same, or nobody knows what was recorded.
    pub(crate) fn of(action: &Action, got: Result<i64, Errno>) -> Option<Self> {
        let (recorded, got) = match (action.recorded.said()?, got) {
            (Ok(_), Ok(_)) if action.has(mark::HANDED) => (Difference::Ok, Difference::Ok),
            (Ok(recorded), Ok(got)) => (Difference::Ok, values(action, recorded, got)),
            (Ok(_), Err(why)) => (Difference::Ok, Difference::Failed(why as i32)),
            (Err(errno), Ok(_)) => (Difference::Failed(errno), Difference::Ok),
            (Err(errno), Err(why)) => (Difference::Failed(errno), Difference::Failed(why as i32)),
        };
        (recorded != got).then_some(Self { recorded, got })
    }
}

/// Descriptors have other numbers here, file systems list directories by their own measure, links
/// may be written otherwise.
fn values(action: &Action, recorded: i64, got: i64) -> Difference {
    use std::cmp::Ordering;
    let operation = action.operation;
    if operation == Operation::Seek {
        return if recorded == got || action.has(mark::OPAQUE) {
            Difference::Ok
        } else {
            Difference::Elsewhere
        };
    }
    let counts_otherwise = matches!(operation, Operation::Map | Operation::CloneByCopy);
    if !operation.moves_data() && operation != Operation::Getxattr || counts_otherwise {
        return Difference::Ok;
    }
    match got.cmp(&recorded) {
        Ordering::Less => Difference::Fewer,
        Ordering::Equal => Difference::Ok,
        Ordering::Greater => Difference::More,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Recorded;

    #[test]
    fn results_are_compared_as_far_as_they_mean_something_here() {
        let told = |operation, recorded, got| {
            let action = Action::new(operation, recorded);
            let found = Comparison::of(&action, got)?;
            Some(format!("{}, {}", found.recorded.text(), found.got.text()))
        };
        let (some, none) = (Recorded::returned(10), Recorded::failed(2));
        assert_eq!(told(Operation::Read, some, Ok(10)), None);
        assert_eq!(told(Operation::Read, some, Ok(9)).unwrap(), "ok, fewer bytes");
        assert_eq!(told(Operation::Write, some, Ok(11)).unwrap(), "ok, more bytes");
        assert_eq!(told(Operation::Seek, some, Ok(11)).unwrap(), "ok, elsewhere");
        assert_eq!(told(Operation::Open, some, Ok(3)), None);
        assert_eq!(told(Operation::Open, none, Ok(3)).unwrap(), "ENOENT, ok");
        assert_eq!(told(Operation::Open, none, Err(Errno::ENOENT)), None);
        assert_eq!(
            told(Operation::Open, some, Err(Errno::EACCES)).unwrap(),
            "ok, EACCES"
        );
        assert_eq!(told(Operation::Read, Recorded::unknown(), Ok(9)), None);

        // How much a request has moved that was handed over is not known, but that it could be
        // made.
        let handed = Action {
            marks: mark::HANDED,
            ..Action::new(Operation::Pread, some)
        };
        assert_eq!(Comparison::of(&handed, Ok(9)), None);
        assert!(Comparison::of(&handed, Err(Errno::EIO)).is_some());
    }
}
