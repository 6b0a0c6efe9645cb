//! The files of a run's directory that the controller writes: [`live`] during the run and
//! [`summary`] at its end. [`convert`] completes the directory of a run whose controller ended.

pub(crate) mod convert;
pub(crate) mod live;
pub(crate) mod summary;
