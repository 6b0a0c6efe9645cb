//! Records the calls of a program in a trace file, with strace or with the preload recorder.
//!
//! [`Recording`] records a program, or a running process. [`left`] imports the logs of a preload
//! recording that was killed. [`output`] writes files that appear under their names only when they
//! are complete. The crate prints nothing: it returns the footer of the trace, and each [`Remark`]
//! for the user.

mod attached;
mod calibrate;
mod error;
mod fifo;
mod follow;
mod host;
pub mod left;
mod mapped_file;
pub mod output;
mod preload;
mod record;
mod recorder_directory;
mod request;
mod strace;

pub use calibrate::spin;
pub use error::{CalibrationError, CaptureError, RequestError};
pub use left::Remark;
pub use record::Recording;
pub use request::{RecordRequest, Source};
