//! The text of strace 4.26 to 7.x, with any of its options.
//!
//! [`line`] tells what one line is, [`calls`] puts together what was cut in two, [`mod@value`]
//! reads single arguments, and [`scan`] knows what hides a comma. Bytes go in and slices of them
//! come out, so that a call costs no memory.

pub mod calls;
pub mod line;
pub mod scan;
mod time;
pub mod value;

pub use calls::{Call, Calls, LineContent};
pub use line::{Line, What};
pub use time::Stamp;
