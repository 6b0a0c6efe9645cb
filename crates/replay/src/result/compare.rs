//! Compares results with those of the trace.

use nix::errno::Errno;

use crate::action::{Action, Operation, mark};

/// Text of the result of a call on a file whose opening failed.
pub(crate) const NOT_OPEN: &str = "not open";

/// One side of a comparison of two results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Difference {
    Ok,
    Fewer,
    More,
    Elsewhere,
    Lost,
    Failed(i32),
}

/// The recorded result and that of the replay, if they differ.
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
    /// The comparison of a call that was not made because its file is not open.
    pub(crate) fn of_lost(action: &Action) -> Self {
        let recorded = match action.recorded.result() {
            Some(Err(errno)) => Difference::Failed(errno),
            _ => Difference::Ok,
        };
        let got = Difference::Lost;
        Self { recorded, got }
    }

    /// Compares two results. None if they are equal, or if the recorded result is unknown.
    pub(crate) fn of(action: &Action, got: Result<i64, Errno>) -> Option<Self> {
        let (recorded, got) = match (action.recorded.result()?, got) {
            (Ok(_), Ok(_)) if action.has(mark::HANDED) => (Difference::Ok, Difference::Ok),
            (Ok(recorded), Ok(got)) => (Difference::Ok, values(action, recorded, got)),
            (Ok(_), Err(why)) => (Difference::Ok, Difference::Failed(why as i32)),
            (Err(errno), Ok(_)) => (Difference::Failed(errno), Difference::Ok),
            (Err(errno), Err(why)) => (Difference::Failed(errno), Difference::Failed(why as i32)),
        };
        (recorded != got).then_some(Self { recorded, got })
    }
}

/// Compares two values of successful calls. Only lseek and calls that move data are compared:
/// descriptors have other numbers, file systems list directories in their own way, and targets of
/// links may be written differently.
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
    use crate::action::RecordedResult;

    #[test]
    fn only_meaningful_values_are_compared() {
        let difference = |operation, recorded, got| {
            let action = Action::new(operation, recorded);
            let comparison = Comparison::of(&action, got)?;
            Some(format!(
                "{}, {}",
                comparison.recorded.text(),
                comparison.got.text()
            ))
        };
        let (some, none) = (RecordedResult::returned(10), RecordedResult::failed(2));
        assert_eq!(difference(Operation::Read, some, Ok(10)), None);
        assert_eq!(
            difference(Operation::Read, some, Ok(9)).unwrap(),
            "ok, fewer bytes"
        );
        assert_eq!(
            difference(Operation::Write, some, Ok(11)).unwrap(),
            "ok, more bytes"
        );
        assert_eq!(
            difference(Operation::Seek, some, Ok(11)).unwrap(),
            "ok, elsewhere"
        );
        assert_eq!(difference(Operation::Open, some, Ok(3)), None);
        assert_eq!(difference(Operation::Open, none, Ok(3)).unwrap(), "ENOENT, ok");
        assert_eq!(difference(Operation::Open, none, Err(Errno::ENOENT)), None);
        assert_eq!(
            difference(Operation::Open, some, Err(Errno::EACCES)).unwrap(),
            "ok, EACCES"
        );
        assert_eq!(
            difference(Operation::Read, RecordedResult::unknown(), Ok(9)),
            None
        );

        // The number of bytes of a submitted request is not recorded, but the call must succeed.
        let handed = Action {
            marks: mark::HANDED,
            ..Action::new(Operation::Pread, some)
        };
        assert_eq!(Comparison::of(&handed, Ok(9)), None);
        assert!(Comparison::of(&handed, Err(Errno::EIO)).is_some());
    }
}
