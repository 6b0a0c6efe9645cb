//! Parses the text of strace 4.26 to 7.x, with any of its options.
//!
//! [`line`] parses a line, [`calls`] joins the two parts of an interrupted call, [`mod@value`]
//! parses an argument, and [`scan`] finds the ends of arguments. The results are slices of the
//! input, so parsing a call allocates no memory.

pub mod calls;
pub mod line;
pub mod scan;
mod time;
pub mod value;

pub use calls::{Call, Calls, LineContent};
pub use line::{Line, LineKind};
pub use time::Stamp;
